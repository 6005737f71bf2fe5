//! One of many leads.

use std::time::Duration;

use ext_php_rs::boxed::ZBox;
use ext_php_rs::convert::IntoZval;
use ext_php_rs::exception::PhpResult;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};
use lockwright::Client;
use lockwright::options::AcquireOptions;

use crate::guard::Guard;
use crate::lock::Lock;
use crate::thrown::thrown;
use crate::value::{of_token, optional_span, text};
use crate::waiting::paused;

/// How often `changed` looks.
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
        self.client.lock(&self.name).options(options).build().map(Lock::new).map_err(thrown)
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

#[php_impl]
impl Election {
    /// Waits to lead, and proclaims a text of at most 128 bytes from then on. Releasing the guard resigns.
    pub fn campaign(&self, proclaims: &Zval, timeout: Option<&Zval>) -> PhpResult<Guard> {
        let label = Some(text("lock", "proclaims", proclaims)?.into());
        let options = AcquireOptions { fair: false, rank: 0, label, ..self.options.clone() };
        self.lock(options)?.fair_if_possible().acquired(timeout)
    }

    /// Who leads now: an array of `proclaims`, `host`, `pid`, `language`, `token` (higher with every leader) and
    /// `leadsFor` (seconds, where the store can tell); null when nobody does.
    pub fn leader(&self) -> PhpResult<Option<Zval>> {
        Ok(self.seen()?.map(|(_, leader)| leader.into_zval(false)).transpose()?)
    }

    /// Waits until somebody else leads than the one with the token `known`, looking each `every` (0.5 s); null when
    /// nobody leads any more.
    pub fn changed(&self, known: Option<&Zval>, every: Option<&Zval>) -> PhpResult<Option<Zval>> {
        let every = optional_span("inspect", "every", every)?.unwrap_or(EVERY);
        let known = known.filter(|known| !known.is_null()).map(crate::value::token).transpose()?;
        loop {
            let leader = self.seen()?;
            if leader.as_ref().map(|(token, _)| *token) != known {
                return Ok(leader.map(|(_, leader)| leader.into_zval(false)).transpose()?);
            }
            paused("inspect", every)?;
        }
    }
}
