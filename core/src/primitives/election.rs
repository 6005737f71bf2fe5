//! One of many leads: [`Client::election`](crate::Client::election).
//!
//! **When to use.** Several processes stand by for work that one of them does for as long as it lives, and others want
//! to know which one: a scheduler, a compactor, the primary of a pair.
//!
//! **When not.** For work that has an end, a lock says the same with less. For leadership that must outlive its
//! leader's pauses, no lease can: whatever the leader writes to must look at its [token](crate::Token)
//! ([`kit`](crate::kit)).
//!
//! The leader is whoever holds the lock `name`; candidates wait for it in the order in which they came where the store
//! promises `fair` and the server allows it, else in none. What a leader proclaims is the lock's label, at most 128
//! bytes, such as where it is reached; observers read it with the token, by `inspect`, and so every `every` until
//! something changed, without standing in line. On several nodes, each of which has tokens of its own, a leader leads
//! once a majority keeps it under one token, for which it takes one more round to them; where no layout can do that, as
//! with SQLite files, observers may know one leader by different tokens.
//!
//! ```no_run
//! # async fn example(client: lockwright::Client) -> lockwright::Result<()> {
//! let election = client.election("scheduler");
//! let leadership = election.campaign("10.0.0.7:8080").await?;
//! println!("leading under token {}", leadership.token());
//! let _ = leadership.release().await?;                     // resigns
//! # Ok(())
//! # }
//! ```

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::Async;
use crate::client::{Blocking, Client, Face, Guard, Lock};
use crate::error::{Error, Kind, Result};
use crate::lease::{Card, Inspection};
use crate::options::AcquireOptions;
use crate::platform::runtime;
use crate::token::Token;

/// How often an observer looks, unless it says otherwise.
pub const EVERY: Duration = Duration::from_millis(500);

/// An election. Cheap to clone.
pub struct Election<F: Face = Async> {
    client: Client<F>,
    name: String,
    options: AcquireOptions,
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// What it proclaims, and where it runs.
    pub card: Card,
    /// Its fencing token: higher with every leader.
    pub token: u64,
    /// For how long it has been leading, where the store can tell.
    pub leads_for: Option<Duration>,
}

impl Leader {
    fn of(seen: Inspection) -> Option<Self> {
        let holder = seen.holder?;
        Some(Leader { card: holder.card, token: holder.first_token, leads_for: holder.held_for })
    }
}

impl<F: Face> Client<F> {
    /// The election called `name`, with this client's options.
    pub fn election(&self, name: &str) -> Election<F> {
        self.election_with(name, &self.options())
    }

    /// The same with other options: `ttl` says within what time a leader that died is replaced, `timeout` how long to
    /// campaign. `fair` and the label are the election's.
    pub fn election_with(&self, name: &str, options: &AcquireOptions) -> Election<F> {
        Election { client: self.clone(), name: name.to_owned(), options: options.clone() }
    }
}

impl<F: Face> Election<F> {
    /// The name of its lock.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn candidate(&self, proclaims: &str) -> Result<Lock<F>> {
        let options = AcquireOptions { fair: false, rank: 0, label: Some(proclaims.into()), ..self.options.clone() };
        self.lock(options)
    }

    fn seat(&self) -> Result<Lock<F>> {
        self.lock(self.options.clone())
    }

    fn lock(&self, options: AcquireOptions) -> Result<Lock<F>> {
        self.client.lock(&self.name).options(options).build()?.for_election()
    }
}

/// Whether somebody else leads than the one known by its token, or nobody does any more.
fn is_news(leader: Option<&Leader>, known: Option<u64>) -> bool {
    leader.map(|leader| leader.token) != known
}

impl Election {
    /// Waits to lead, as long as the options say, and proclaims a text of at most 128 bytes from then on. Leadership is
    /// a guard like any other: it tells when it is lost, and releasing it resigns. Dropping the future ends the
    /// candidacy.
    ///
    /// # Errors
    /// As [`LockBuilder::build`](crate::LockBuilder::build) and [`Lock::acquire`].
    pub async fn campaign(&self, proclaims: &str) -> Result<Guard> {
        self.candidate(proclaims)?.acquire().await
    }

    /// Campaigns, and does `work` while this one leads, given the guard's token; when leadership is lost the work's
    /// future is dropped, and it campaigns again. Ends with what the work ends with, and resigns. Dropping the future
    /// ends all of it. A store that does not answer is asked again every [`EVERY`]: leadership is not given up for good
    /// because of an outage.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign), but neither `unavailable` nor `lost`.
    pub async fn run<T, Working: Future<Output = T>>(
        &self,
        proclaims: &str,
        mut work: impl FnMut(Token) -> Working,
    ) -> Result<T> {
        loop {
            let guard = match self.campaign(proclaims).await {
                Ok(guard) => guard,
                Err(error) if may_come_back(&error) => {
                    pause(EVERY).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Some(done) = while_held(&guard, work(guard.token())).await {
                let _ = guard.release().await?;
                return Ok(done);
            }
        }
    }

    /// Who leads now.
    ///
    /// # Errors
    /// As [`Lock::inspect`].
    pub async fn leader(&self) -> Result<Option<Leader>> {
        Ok(Leader::of(self.seat()?.inspect().await?))
    }

    /// Waits until somebody else leads than the one with the token `known`, or, for `None`, until anybody does; looks
    /// every `every`. `None` when nobody leads any more. A reign shorter than that may go unseen.
    ///
    /// # Errors
    /// As [`leader`](Self::leader).
    pub async fn changed(&self, known: Option<u64>, every: Duration) -> Result<Option<Leader>> {
        loop {
            let leader = self.leader().await?;
            if is_news(leader.as_ref(), known) {
                return Ok(leader);
            }
            pause(every).await?;
        }
    }
}

/// What the work ends with, unless the guard is lost before.
async fn while_held<T>(guard: &Guard, work: impl Future<Output = T>) -> Option<T> {
    let (mut working, mut lost) = (pin!(work), pin!(guard.lost()));
    poll_fn(|context| match working.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => lost.as_mut().poll(context).map(|_| None),
    })
    .await
}

/// The caller's executor need not be tokio.
async fn pause(span: Duration) -> Result<()> {
    let pause = {
        let _driver = runtime::handle()?.enter();
        tokio::time::sleep(span)
    };
    pause.await;
    Ok(())
}

/// Whether a candidate goes on after it.
fn may_come_back(error: &Error) -> bool {
    matches!(error.kind(), Kind::Unavailable | Kind::Lost)
}

impl Election<Blocking> {
    /// See the async [`campaign`](crate::election::Election::campaign).
    ///
    /// # Errors
    /// As there.
    pub fn campaign(&self, proclaims: &str) -> Result<Guard<Blocking>> {
        self.candidate(proclaims)?.acquire()
    }

    /// Campaigns, and does `work` while this one leads; the work has to look at the guard, and to return soon once that
    /// is lost. Then it campaigns again, and what the work returned is dropped. When it returns as the leader it
    /// resigns, and that is the result.
    ///
    /// # Errors
    /// As the async [`run`](crate::election::Election::run).
    pub fn run<T>(&self, proclaims: &str, mut work: impl FnMut(&Guard<Blocking>) -> T) -> Result<T> {
        loop {
            let guard = match self.campaign(proclaims) {
                Ok(guard) => guard,
                Err(error) if may_come_back(&error) => {
                    std::thread::sleep(EVERY);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let done = work(&guard);
            if guard.is_held() {
                let _ = guard.release()?;
                return Ok(done);
            }
        }
    }

    /// See the async [`leader`](crate::election::Election::leader).
    ///
    /// # Errors
    /// As there.
    pub fn leader(&self) -> Result<Option<Leader>> {
        Ok(Leader::of(self.seat()?.inspect()?))
    }

    /// See the async [`changed`](crate::election::Election::changed).
    ///
    /// # Errors
    /// As there.
    pub fn changed(&self, known: Option<u64>, every: Duration) -> Result<Option<Leader>> {
        loop {
            let leader = self.leader()?;
            if is_news(leader.as_ref(), known) {
                return Ok(leader);
            }
            std::thread::sleep(every);
        }
    }
}

impl<F: Face> Clone for Election<F> {
    fn clone(&self) -> Self {
        let Election { client, name, options } = self;
        Election { client: client.clone(), name: name.clone(), options: options.clone() }
    }
}

impl<F: Face> std::fmt::Debug for Election<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Election({:?})", self.name)
    }
}
