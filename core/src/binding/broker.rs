//! Questions for user and password: a thread of the driver's asks, and the language answers on a thread of its own.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::Numbered;
use crate::options::Credentials;
use crate::platform::mutex::locked;

/// User and password, or why there are none.
pub type Found = Result<Credentials, String>;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Broker {
    state: Mutex<Questions>,
    answered: Condvar,
}

#[derive(Debug, Default)]
struct Questions {
    open: Numbered<Option<Found>>,
    /// Why nobody answers any more.
    closed: Option<&'static str>,
}

impl Broker {
    /// Has `post` pass on a question of that number, and blocks this thread, which has no other work meanwhile, until
    /// [`give`](Self::give) has answered it, for `limit` at most. `source` is what the language calls the one who is to
    /// answer.
    ///
    /// # Errors
    /// Why there are no credentials.
    pub fn ask(
        &self,
        source: &str,
        limit: Duration,
        post: impl FnOnce(u32),
    ) -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>> {
        let question = {
            let mut state = locked(&self.state);
            if let Some(why) = state.closed {
                return Err(why.into());
            }
            state.open.keep(None)
        };
        post(question);
        let is_open = |state: &mut Questions| state.closed.is_none() && matches!(state.open.get(question), Some(None));
        let waited = self.answered.wait_timeout_while(locked(&self.state), limit, is_open);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let found = state.open.remove(question).flatten();
        let late = || format!("the {source} did not answer within {limit:?}");
        Ok(found.unwrap_or_else(|| Err(state.closed.map_or_else(late, str::to_owned)))?)
    }

    /// The answer to a question. Nobody waits for one that comes late.
    pub fn give(&self, question: u32, found: Found) {
        if let Some(open) = locked(&self.state).open.get(question) {
            *open = Some(found);
        }
        self.answered.notify_all();
    }

    /// Nobody answers any more, for this reason.
    pub fn close(&self, why: &'static str) {
        locked(&self.state).closed = Some(why);
        self.answered.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn whoever_asks_hears_the_answer_or_why_there_is_none() {
        let broker = Broker::default();
        let given = || Credentials { user: "u".into(), password: "p".into() };
        assert_eq!(broker.ask("function", LONG, |question| broker.give(question, Ok(given()))).unwrap().user, "u");
        let why = |limit, post: &dyn Fn(u32)| broker.ask("function", limit, post).unwrap_err().to_string();
        assert_eq!(why(LONG, &|question| broker.give(question, Err("it threw".into()))), "it threw");
        assert_eq!(why(Duration::from_millis(1), &|_| {}), "the function did not answer within 1ms");
        // An answer to a question that is over is nobody's.
        assert!(why(Duration::from_millis(1), &|question| broker.give(question - 1, Ok(given()))).contains("1ms"));
        assert_eq!(why(LONG, &|_| broker.close("it has ended")), "it has ended");
        assert_eq!(why(LONG, &|_| panic!("nobody is asked")), "it has ended");
    }
}
