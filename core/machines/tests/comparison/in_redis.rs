//! The scripts on a real server, under the test's clock.

#![allow(unreachable_pub, dead_code, reason = "the module is shared, and each test uses its part")]

use std::sync::Arc;

use lockwright_machines::native_machine::NativeLayout;
use lockwright_machines::protocol::{Arg, Reply, Request, StoreEvent};
use lockwright_machines::stores::redis::layouts::{latch_scripts::PAST, native_scripts};
use lockwright_machines::time::StoreTime;
use proptest::test_runner::TestCaseError;

use crate::comparison::{Compared, Model, Store, play};
use crate::redis_server::{Inbox, Server, check_queue, compare, goes};

/// A kind of record as it lies in Redis.
pub trait InHash: Compared {
    /// Whether the hash keeps what the model does.
    fn check(server: &mut Server, model: &Model<Self>) -> Result<(), TestCaseError>;

    /// The answer, with what the scripts of this kind tell differently put straight.
    fn comparable(_: &Model<Self>, _expected: &Reply, reply: Reply) -> Reply {
        reply
    }
}

/// The server, and where it is listened to.
pub struct InRedis<'a> {
    pub server: &'a mut Server,
    pub inbox: &'a mut Inbox,
}

impl<C: InHash> Store<C> for InRedis<'_> {
    const CLOCK_STEPS_BACK: bool = true;

    fn layout(&self) -> NativeLayout {
        native_scripts::layout("")
    }

    fn begin(&mut self, key: &str) -> StoreTime {
        clear(self.server, key);
        // What a sequence left that failed is not told to a shorter one.
        self.inbox.pushed(self.server);
        self.server.later()
    }

    fn ask(&mut self, request: &Request, now: StoreTime) -> Reply {
        self.server.ask(request, now)
    }

    fn pushed(&mut self) -> Vec<(Arc<str>, StoreEvent)> {
        self.inbox.pushed(self.server)
    }

    fn is_there(&mut self, key: &str) -> bool {
        self.server.number(&["EXISTS", key]) == Some(1)
    }

    fn forgets(&mut self, key: &str, now: StoreTime) -> bool {
        let goes = goes(self.server, key).is_some_and(|goes| now.0 >= goes);
        if goes {
            self.server.plain(&["DEL", key]);
        }
        goes
    }

    fn comparable(&self, model: &Model<C>, request: &Request, expected: &Reply, mut reply: Reply) -> Reply {
        let waited = |me: &str| model.waited.iter().any(|attempt| me.starts_with(&attempt.to_string()));
        let asks_again = matches!(request.args.first(), Some(Arg::Text(me)) if waited(me));
        // A waiter that asks again learns a bound of its position once somebody left the queue's middle.
        if let (Reply::List(got), Reply::List(wanted)) = (&mut reply, expected)
            && let ([Reply::Int(1), _, _, Reply::Int(at), ..], [Reply::Int(1), _, _, Reply::Int(want), ..]) =
                (got.as_mut_slice(), wanted.as_slice())
            && asks_again
            && model.has_gaps
            && (*want..C::line(&model.beside).len() as i64).contains(at)
        {
            *at = *want;
        }
        C::comparable(model, expected, reply)
    }

    fn check(&mut self, model: &Model<C>) -> Result<(), TestCaseError> {
        C::check(self.server, model)
    }

    fn check_at_end(&mut self, model: &Model<C>) {
        check_queue(self.server, &model.key);
    }
}

/// Removes what lies under a key, and what is remembered beside it.
pub fn clear(server: &mut Server, key: &str) {
    server.plain(&["DEL", key, &past(key)]);
}

/// Where it lies what became of attempts at a latch or a barrier.
pub fn past(key: &str) -> String {
    format!("{key}{PAST}")
}

/// Compares so many random sequences.
pub fn compare_scripts<C: InHash>(sequences: u32) {
    compare(sequences, &C::commands(), |server, inbox, commands| {
        play::<C, _>(&mut InRedis { server, inbox }, commands)
    });
}

/// Plays what is too rare to be left to chance.
pub fn play_in_redis<C: InHash>(commands: &[C::Command]) -> Result<(), TestCaseError> {
    let (mut server, mut inbox) = (Server::connect(), Inbox::open());
    play::<C, _>(&mut InRedis { server: &mut server, inbox: &mut inbox }, commands)
}
