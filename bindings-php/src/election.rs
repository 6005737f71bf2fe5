//! One of many leads.

use std::sync::Arc;
use std::time::Duration;

use ext_php_rs::boxed::ZBox;
use ext_php_rs::convert::IntoZval;
use ext_php_rs::exception::PhpResult;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};
use lockwright::binding::{Held, check_every};
use lockwright::options::AcquireOptions;
use lockwright::{Client, Kind};

use crate::classes::of_error;
use crate::guard::{Guard, released_yet};
use crate::lock::Lock;
use crate::once::{callable, called_unless};
use crate::thrown::thrown;
use crate::value::{is_there, of_token, optional_span, text, token};
use crate::waiting::paused;

/// How often `changed` looks, and `run` asks a store that does not answer.
const EVERY: Duration = Duration::from_millis(500);

/// The leader is whoever holds the lock of that name; candidates wait for it in order, where the store promises `fair`
/// and the server allows it.
#[php_class]
#[php(name = "Lockwright\\Election", flags = ext_php_rs::flags::ClassFlags::Final)]
#[derive(Debug)]
pub struct Election {
    pub(crate) client: Client,
    pub(crate) name: String,
    pub(crate) options: AcquireOptions,
}

impl Election {
    fn lock(&self, options: AcquireOptions) -> PhpResult<Lock> {
        Lock::new(self.client.lock(&self.name).options(options).build().map_err(thrown)?).for_election()
    }

    /// What waits to lead.
    fn candidate(&self, proclaims: &Zval) -> PhpResult<Lock> {
        let label = Some(text("lock", "proclaims", proclaims)?.into());
        let options = AcquireOptions { fair: false, rank: 0, label, ..self.options.clone() };
        self.lock(options)
    }

    fn seen(&self) -> PhpResult<Option<(u64, ZBox<ZendHashTable>)>> {
        let Some(holder) = self.lock(self.options.clone())?.looked_at()?.holder else { return Ok(None) };
        let mut leader = ZendHashTable::new();
        leader.insert("proclaims", holder.card.label)?;
        leader.insert("host", holder.card.host)?;
        leader.insert("pid", i64::from(holder.card.pid))?;
        leader.insert("language", holder.card.language)?;
        leader.insert("token", of_token(holder.first_token)?)?;
        leader.insert("leadsFor", holder.held_for.map(|span| span.as_secs_f64()))?;
        Ok(Some((holder.first_token, leader)))
    }
}

/// What the work returned as the leader; none once leadership was lost.
fn reign(held: &Arc<Held>, guard: &Zval, work: &Zval) -> PhpResult<Option<Zval>> {
    let done = called_unless(&callable(work, "work")?, vec![guard], of_error(Kind::Lost), || held.why().is_some());
    let ended = released_yet(held);
    let Some(done) = done? else { return Ok(None) };
    let why = ended?.and_then(|ending| ending.why);
    Ok(why.is_none().then_some(done))
}

#[php_impl]
impl Election {
    /// Waits to lead, and proclaims a text of at most 128 bytes from then on. Releasing the guard resigns.
    pub fn campaign(&self, proclaims: &Zval, timeout: Option<&Zval>) -> PhpResult<Guard> {
        self.candidate(proclaims)?.acquired(timeout)
    }

    /// Campaigns, calls `work` with the guard while this one leads, and returns what that returns; then it resigns.
    ///
    /// The work has to look at `isHeld`, or to throw in a listener of `onLost`, and to end soon once leadership is
    /// lost: then this campaigns again, and what the work returned is dropped. A LockLost that the work throws because
    /// of that is no error. A store that does not answer is asked again every 0.5 s. Throws what the work throws,
    /// having resigned, and else what `campaign` throws, but neither Unavailable nor LockLost.
    pub fn run(&self, proclaims: &Zval, work: &Zval) -> PhpResult<Zval> {
        callable(work, "work")?;
        loop {
            let guard = match self.candidate(proclaims)?.acquired_or(None)? {
                Ok(guard) => guard,
                Err(error) if matches!(error.kind(), Kind::Unavailable | Kind::Lost) => {
                    paused("acquire", EVERY)?;
                    continue;
                }
                Err(error) => return Err(thrown(error)),
            };
            let held = guard.held.clone();
            if let Some(done) = reign(&held, &guard.into_zval(false)?, work)? {
                return Ok(done);
            }
        }
    }

    /// Who leads now: an array of `proclaims`, `host`, `pid`, `language`, `token` (higher with every leader) and
    /// `leadsFor` (seconds, where the store can tell); null when nobody does.
    pub fn leader(&self) -> PhpResult<Option<Zval>> {
        Ok(self.seen()?.map(|(_, leader)| leader.into_zval(false)).transpose()?)
    }

    /// Waits until somebody else leads than the one with the token `known`, looking each `every` (0.5 s); null when
    /// nobody leads any more. `every` is 0.001 to 86,400 s: another is InvalidConfig.
    pub fn changed(&self, known: Option<&Zval>, every: Option<&Zval>) -> PhpResult<Option<Zval>> {
        let every = optional_span("inspect", "every", every)?.unwrap_or(EVERY);
        check_every(every).map_err(thrown)?;
        let known = is_there(known).map(|known| token("inspect", "known", known)).transpose()?;
        loop {
            let leader = self.seen()?;
            if leader.as_ref().map(|(token, _)| *token) != known {
                return Ok(leader.map(|(_, leader)| leader.into_zval(false)).transpose()?);
            }
            paused("inspect", every)?;
        }
    }
}
