//! What a server does with a lock of the layout `string` without tokens: the reference that its script is compared
//! with.

#![allow(unreachable_pub, dead_code, reason = "the module is shared, and each test uses its part")]

use std::time::Duration;

use lockwright_machines::protocol::{Arg, Reply, Request};
use lockwright_machines::time::StoreTime;

/// The key: its owner, and its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenlessStore {
    pub value: Option<(String, StoreTime)>,
}

/// A request, as the server reads it.
#[derive(Clone, Debug)]
pub struct Words {
    pub name: &'static str,
    pub owner: String,
    pub ttl: Duration,
    pub not_after: StoreTime,
}

impl Words {
    pub fn of(request: &Request) -> Option<Self> {
        let owner = request.args.iter().find_map(|arg| match arg {
            Arg::Text(text) => Some(text.to_string()),
            _ => None,
        })?;
        let mut numbers = request.args.iter().filter_map(|arg| match arg {
            Arg::Int(number) => Some(*number),
            _ => None,
        });
        let ttl = Duration::from_millis(numbers.next().unwrap_or(0) as u64);
        let not_after = StoreTime(numbers.next().unwrap_or(i64::MAX));
        Some(Words { name: request.call.name, owner, ttl, not_after })
    }
}

impl TokenlessStore {
    /// Who holds it.
    pub fn holder(&self, now: StoreTime) -> Option<&(String, StoreTime)> {
        self.value.as_ref().filter(|(_, ends)| *ends > now)
    }

    /// Executes a request.
    pub fn run(&mut self, asked: &Words, now: StoreTime) -> Reply {
        self.value.take_if(|(_, ends)| *ends <= now);
        let is_mine = self.value.as_ref().is_some_and(|(owner, _)| *owner == asked.owner);
        let ends = now.after(asked.ttl);
        match asked.name {
            "set" if self.value.is_some() => Reply::Nil,
            "acquire" if now > asked.not_after => Reply::List(vec![Reply::Int(2), Reply::Int(now.0)]),
            "set" | "acquire" if self.value.is_none() => {
                self.value = Some((asked.owner.clone(), ends));
                if asked.name == "set" { Reply::Text("OK".into()) } else { Reply::Int(1) }
            }
            "acquire" if is_mine => Reply::Int(self.keep(ends)),
            "acquire" => {
                let (owner, ends) = self.value.clone().unwrap_or_default();
                let left = ends.micros_since(now) / 1000;
                Reply::List(vec![Reply::Int(0), Reply::Int(now.0), Reply::Int(left), Reply::Text(owner)])
            }
            "renew" if is_mine => Reply::Int(self.keep(ends)),
            "release" if is_mine => {
                self.value = None;
                Reply::Int(1)
            }
            "release" if self.value.is_some() => Reply::Text(String::new()),
            "renew" | "release" => Reply::Int(0),
            "undo" => {
                self.value.take_if(|_| is_mine);
                Reply::Int(1)
            }
            other => panic!("{other} is no call of the layout"),
        }
    }

    /// What lasts longer already stays so.
    fn keep(&mut self, until: StoreTime) -> i64 {
        if let Some((_, ends)) = &mut self.value {
            *ends = until.max(*ends);
        }
        1
    }
}
