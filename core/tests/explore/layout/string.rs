//! The layout `string` of Redis: one key that goes with its lease, and the record of the last block of tokens beside it. No queue:
//! whoever waits asks again.

use std::hash::Hash;
use std::time::Duration;

use lockwright::cell::BLOCK;
use lockwright::protocol::{Arg, AttemptId, InboxId, Op, Protocol, Reply, Request, StoreEvent};
use lockwright::stores::redis::layouts::string::{Format, StringLock};
use lockwright::time::{Relative, StoreTime, Time};

use super::{Around, Checked, Record, name_of};
use crate::glue::process_of;
use crate::view::{Mix, View};

const FORMAT: Format = Format::RedisPy;

#[derive(Clone, Debug, Default)]
pub struct StringRecord {
    /// Who holds, and until when the key lasts.
    held: Option<(AttemptId, StoreTime)>,
    /// The first token of the last block, and who got it.
    block: (u64, Option<AttemptId>),
}

/// A request, its owners read back.
#[derive(Clone, Debug)]
pub enum Call {
    Acquire { me: AttemptId, ttl: Duration, not_after: StoreTime },
    Renew { me: AttemptId, ttl: Duration },
    Release { me: AttemptId },
    Undo { attempts: Vec<AttemptId> },
}

impl StringRecord {
    /// The key goes by itself.
    fn holder(&self, now: StoreTime) -> Option<(AttemptId, StoreTime)> {
        self.held.filter(|(_, expires)| *expires > now)
    }

    fn acquire(&mut self, me: AttemptId, ttl: Duration, now: StoreTime, token_floor: u64) -> Reply {
        let holder = self.holder(now);
        if let Some((owner, expires)) = holder.filter(|(owner, _)| *owner != me) {
            let (left, owner) = (expires.micros_since(now) / 1000, FORMAT.owner(owner));
            return Reply::List(vec![Reply::Int(0), Reply::Int(now.0), Reply::Int(left), Reply::Text(owner)]);
        }
        let until = now.after(ttl);
        self.held = Some((me, holder.map_or(until, |(_, expires)| expires.max(until))));
        if holder.is_none() || self.block.1 != Some(me) {
            self.block = ((self.block.0 + BLOCK).max(token_floor), Some(me));
        }
        Reply::Int(self.block.0 as i64)
    }

    fn give_back(&mut self, attempt: AttemptId, now: StoreTime) -> bool {
        let is_mine = self.holder(now).is_some_and(|(owner, _)| owner == attempt);
        if is_mine {
            self.held = None;
        }
        is_mine
    }
}

impl Record for StringRecord {
    type Call = Call;

    const BLOCK: u64 = BLOCK;
    const PUSHES: bool = false;

    fn machine() -> Box<dyn Protocol> {
        Box::new(StringLock::new(FORMAT, "L".into()))
    }

    fn read(request: &Request) -> Option<Call> {
        let args = request.args.as_slice();
        let owner = |i: usize| match args.get(i) {
            Some(Arg::Text(text)) => u128::from_str_radix(text, 16).ok().map(AttemptId),
            _ => None,
        };
        let millis = |i: usize| match args.get(i) {
            Some(Arg::Int(millis)) => u64::try_from(*millis).ok().map(Duration::from_millis),
            _ => None,
        };
        Some(match (request.call.name, args) {
            ("acquire", [_, _, _, Arg::Int(not_after), _]) => {
                Call::Acquire { me: owner(1)?, ttl: millis(2)?, not_after: StoreTime(*not_after) }
            }
            ("renew", _) => Call::Renew { me: owner(0)?, ttl: millis(1)? },
            ("release", _) => Call::Release { me: owner(1)? },
            ("undo", _) => Call::Undo { attempts: (0..args.len()).map(owner).collect::<Option<_>>()? },
            _ => return None,
        })
    }

    fn run(&mut self, call: &Call, around: &Around<'_>) -> (Reply, Vec<(InboxId, StoreEvent)>) {
        let Around { now, token_floor, .. } = *around;
        let reply = match call {
            Call::Acquire { not_after, .. } if now > *not_after => Reply::List(vec![Reply::Int(2), Reply::Int(now.0)]),
            Call::Acquire { me, ttl, .. } => self.acquire(*me, *ttl, now, token_floor),
            Call::Renew { me, ttl } => match self.holder(now) {
                Some((owner, expires)) if owner == *me => {
                    self.held = Some((owner, expires.max(now.after(*ttl))));
                    Reply::Int(1)
                }
                _ => Reply::Int(0),
            },
            Call::Release { me } if self.give_back(*me, now) => Reply::Int(1),
            Call::Release { .. } if self.holder(now).is_none() => Reply::Int(0),
            Call::Release { .. } => Reply::Text(String::new()),
            Call::Undo { attempts } => {
                for attempt in attempts {
                    self.give_back(*attempt, now);
                }
                Reply::Int(1)
            }
        };
        (reply, Vec::new())
    }

    fn renews(call: &Call) -> Option<Duration> {
        match call {
            Call::Renew { ttl, .. } => Some(*ttl),
            _ => None,
        }
    }

    fn hold(&self) -> Option<(AttemptId, StoreTime)> {
        self.held
    }

    fn line(&self) -> impl Iterator<Item = AttemptId> {
        std::iter::empty()
    }

    fn last(&self) -> u64 {
        self.block.0
    }

    fn check(&self, before: &Self, call: &Call, around: &Around<'_>) -> Checked<()> {
        let Around { now, top, .. } = *around;
        let (old, new) = (before.holder(now), self.holder(now));
        if let Some((owner, expires)) = old {
            let whose = name_of(owner);
            match new {
                Some((other, _)) if other != owner => {
                    return Err(format!("{} takes the lock from {whose}", Self::explain(call)));
                }
                Some((_, later)) if later < expires => {
                    return Err(format!("{} shortens the lease of {whose}", Self::explain(call)));
                }
                None if !matches!(call, Call::Release { me } if *me == owner)
                    && !matches!(call, Call::Undo { attempts } if attempts.contains(&owner)) =>
                {
                    return Err(format!("{} ends the live lease of {whose}", Self::explain(call)));
                }
                _ => {}
            }
        }
        match new {
            Some((owner, _)) if old.is_none_or(|(before, _)| before != owner) && self.block.0 <= top => {
                Err(format!("{} is granted token {} but {top} was used already", name_of(owner), self.block.0))
            }
            _ => Ok(()),
        }
    }

    fn fingerprint(&self, view: &View, state: &mut Mix) {
        self.held.map(|(_, expires)| view.ahead_at_store(expires)).hash(state);
        view.token(self.block.0).hash(state);
    }

    fn fingerprint_of(&self, client: usize, view: &View, state: &mut Mix) {
        let mine = |attempt: &AttemptId| process_of(*attempt) == client;
        let held = self.held.map(|(owner, _)| owner).filter(mine);
        (held.map(|owner| view.attempt(owner)), self.block.1.filter(mine).map(|owner| view.attempt(owner))).hash(state);
    }

    fn fingerprint_call(call: &Call, sent: Time, view: &View, state: &mut Mix) {
        match call {
            Call::Acquire { ttl, not_after, .. } => {
                let late = *not_after < StoreTime((view.now / 1000) as i64);
                (1_u8, ttl, late, view.ahead_at_store(*not_after), view.ago(sent)).hash(state);
            }
            Call::Renew { ttl, .. } => (2_u8, ttl, view.ago(sent)).hash(state),
            Call::Release { .. } => 3_u8.hash(state),
            Call::Undo { attempts } => {
                (4_u8, attempts.iter().map(|attempt| view.attempt(*attempt)).collect::<Vec<_>>()).hash(state);
            }
        }
    }

    fn fingerprint_reply(op: Op, reply: &Reply, sent: Time, dated: bool, view: &View, state: &mut Mix) {
        match (op, reply) {
            (Op::Acquire, Reply::Int(first)) => (view.token(*first as u64), view.ago(sent)).hash(state),
            (Op::Acquire, Reply::List(list)) => {
                let at = |i: usize| match list.get(i) {
                    Some(Reply::Int(value)) => *value,
                    _ => 0,
                };
                (at(0), if at(0) == 0 { view.span(at(2) * 1000) } else { 0 }).hash(state);
                dated.then(|| view.ago_at_store(StoreTime(at(1)))).hash(state);
            }
            (Op::Renew, _) => (reply, view.ago(sent)).hash(state),
            _ => reply.hash(state),
        }
    }

    fn explain(call: &Call) -> String {
        match call {
            Call::Acquire { me, .. } => format!("acquire {}", name_of(*me)),
            Call::Renew { me, .. } => format!("renew {}", name_of(*me)),
            Call::Release { me } => format!("release {}", name_of(*me)),
            Call::Undo { attempts } => {
                let names: Vec<_> = attempts.iter().map(|attempt| name_of(*attempt)).collect();
                format!("undo {}", names.join(" and "))
            }
        }
    }

    fn explain_reply(reply: &Reply, tick: i64, _: i64) -> String {
        match reply {
            Reply::List(list) => match list.as_slice() {
                [Reply::Int(0), _, Reply::Int(left), ..] => format!("held for {} ticks", left * 1000 / tick),
                _ => "late".into(),
            },
            other => format!("{other:?}"),
        }
    }

    fn describe(&self, now: StoreTime, tick: i64) -> String {
        self.held.map_or("nobody".into(), |(owner, expires)| {
            format!("{} for {} ticks", name_of(owner), expires.micros_since(now) as f64 / tick as f64)
        })
    }
}
