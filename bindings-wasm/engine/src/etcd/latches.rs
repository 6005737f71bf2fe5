//! What a request about a latch takes: one post for each of its steps, until there is an answer, or the latch is there
//! and what waits for it can be asked.

use lockwright_machines::protocol::{Arg, AttemptId, Request};
use lockwright_machines::stores::etcd::gateway;
use lockwright_machines::stores::etcd::latch::{Came, Step, Steps};
use lockwright_machines::time::Time;

use super::Etcd;
use super::failures::too_late;
use super::posts::Terms;
use super::writes::Write;

/// Where such a request is.
#[derive(Debug)]
pub(super) struct Latch {
    steps: Steps,
    /// What is done now.
    step: Step,
}

impl Latch {
    pub(super) fn is_kept(&self) -> bool {
        self.step == Step::Kept
    }

    /// What is done can be left undone.
    pub(super) fn gives_back(&self) -> bool {
        matches!(self.step, Step::Revoke(_))
    }

    pub(super) fn go_on(&mut self, came: Came) {
        self.step = self.steps.go_on(came);
    }

    /// What the answer to its post says; none where that is no answer.
    pub(super) fn came(&self, body: &[u8]) -> Option<Came> {
        Some(match self.step {
            Step::Ask(_) => Came::Response(gateway::response(body)?),
            Step::Grant(_) => Came::Granted(gateway::granted(body)?.0),
            Step::KeepAlive(_) => Came::Alive(gateway::alive(body)? > 0),
            _ => Came::Nothing,
        })
    }
}

impl Etcd {
    /// What `request` takes, if it is about a latch.
    pub(super) fn latch_of(&mut self, request: &Request) -> Option<Latch> {
        let mut steps = Steps::of(request, self.counts_as(request))?;
        let step = steps.begin();
        Some(Latch { steps, step })
    }

    /// As whose it is remembered what this client counted down: its first attempt's at that, which nobody else has.
    fn counts_as(&mut self, request: &Request) -> AttemptId {
        let attempt = match (request.call.name, request.args.first()) {
            ("latch.change", Some(Arg::Text(attempt))) => u128::from_str_radix(attempt, 16).ok().map(AttemptId),
            _ => None,
        };
        self.counts_as = self.counts_as.or(attempt);
        self.counts_as.unwrap_or(AttemptId(0))
    }

    /// Does the next step of its request.
    pub(super) fn step(&mut self, now: Time, mut write: Write) {
        let Some(latch) = write.stepping() else { return };
        let (path, body) = match &latch.step {
            Step::Ask(asked) => (gateway::TRANSACTION, gateway::transaction(asked)),
            Step::Grant(seconds) => (gateway::GRANT, gateway::grant(u64::try_from(*seconds).unwrap_or_default())),
            Step::KeepAlive(lease) => (gateway::KEEP_ALIVE, gateway::of_lease(*lease)),
            Step::Revoke(lease) => (gateway::REVOKE, gateway::of_lease(*lease)),
            Step::Rest(time) => return self.resting.push((now.after(*time), write)),
            Step::Answer(reply) => {
                let reply = reply.clone();
                write.reply(reply);
                return self.go_on(now, write);
            }
            Step::TooLate => return self.conclude(now, write, too_late()),
            Step::Kept => return self.go_on(now, write),
        };
        self.post_for(now, write, Terms::default(), path, body);
    }

    /// Those that have rested go on.
    pub(super) fn rested(&mut self, now: Time) {
        for (_, mut write) in self.resting.extract_if(.., |(until, _)| *until <= now) {
            write.stepped(Came::Nothing);
            self.waiting.push_back(write);
        }
    }
}
