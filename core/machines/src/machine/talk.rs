//! What the queue wants of the sessions, and the sessions of the queue.

use super::LockMachine;
use super::effects::Outgoing;
use super::environment::{Handles, Step};
use super::notice::Notice;
use super::slots::Slot;
use crate::error::{Error, Result};
use crate::lease::LossReason;
use crate::protocol::{Op, Push, Terms};
use crate::queue::{self, ContenderId, Refusal};
use crate::rank::Rank;
use crate::session::{self, Service, Session, claim};
use crate::time::Time;
use crate::token::{Token, Tokens};

impl<H: Handles> LockMachine<H> {
    /// Lets queue and sessions talk until both are silent.
    pub(super) fn talk(&mut self, step: &mut Step<'_, H>) {
        loop {
            if let Some(action) = self.queue.poll_action() {
                self.queue_wants(step, action);
            } else if let Some((at, action)) = self.slots.next_action() {
                self.session_wants(step, at, action);
            } else {
                break;
            }
        }
        self.stop_listening(step);
        self.part(step);
        self.disappoint(step);
        self.say_who_waits(step);
        self.refresh_holds(step.now);
    }

    fn queue_wants(&mut self, step: &mut Step<'_, H>, action: queue::Action) {
        let now = step.now;
        match action {
            queue::Action::Contend { contender, wait, fair, rank, service } => {
                if let Err(error) = self.contend(step, contender, wait, (fair, rank), service) {
                    self.cannot_ask(step, contender, error);
                }
            }
            queue::Action::Resume { contender, secret, service } => match self.terms(step, service) {
                Ok(terms) => {
                    let secret = Terms::of_secret(step.env.name().clone(), secret, service.ttl, "".into());
                    self.slot_for(step, contender)
                        .session
                        .handle(now, session::Event::Resume { terms, secret, service });
                }
                Err(error) => self.cannot_ask(step, contender, error),
            },
            queue::Action::Serve { contender, service } => self.serve(now, contender, service),
            queue::Action::RunOut { contender, hold } => self.run_out(now, contender, hold),
            queue::Action::Yield { contender, hold, used, service } => {
                self.release_goes_to(step, contender, hold);
                self.yield_to_others(step, contender, used, service);
            }
            queue::Action::GiveBack { contender, hold, used } => {
                if let Some(hold) = hold {
                    self.release_goes_to(step, contender, hold);
                }
                self.tell(contender, now, session::Event::Release { used });
                self.detach(contender, now);
            }
            queue::Action::Export { contender, hold, used, secret, ttl } => {
                self.release_goes_to(step, contender, hold);
                let secret =
                    Terms::of_secret(step.env.name().clone(), secret, ttl, self.card.clone().unwrap_or_default());
                self.tell(contender, now, session::Event::Export { secret, used });
                self.detach(contender, now);
            }
            queue::Action::Withdraw(contender) => self.withdraw(step, contender),
            queue::Action::Grant { task, hold, token, depth, contender } => {
                let token = token.map(|token| Token::new(token.get()));
                self.grant(step, task, (hold, token), depth, contender);
            }
            queue::Action::Refuse { task, why: Refusal::TimedOut(_) } => self.time_out(step, task),
            queue::Action::Refuse { task, why: Refusal::Taken } => {
                let why = self.why_taken(now);
                self.refuse(step, task, why);
            }
            queue::Action::Refuse { task, why } => self.refuse(step, task, why),
            queue::Action::Released { hold, outcome } => self.released_here(step, hold, outcome),
            queue::Action::Lost { hold } => self.lose_hold(step, hold, LossReason::Expired),
        }
    }

    fn session_wants(&mut self, step: &mut Step<'_, H>, at: usize, action: session::Action) {
        let Slot { id: slot, contender, .. } = self.slots[at];
        match action {
            session::Action::Send { id, requests } => {
                if id.op == Op::Undo {
                    step.effects.notices.push(Notice::Undone { attempt: id.attempt });
                }
                step.effects.sends.push(Outgoing { slot, id, requests });
            }
            session::Action::OpenInbox => self.open_inbox(step, at),
            session::Action::Learn { sent, at } => step.effects.learnt.push((sent, at)),
            session::Action::Granted { tokens } => match contender {
                Some(contender) => self.queue.handle(step.now, queue::Event::Granted { contender, tokens }),
                None => {
                    let used = tokens.map_or(0, Tokens::first);
                    self.slots[at].session.handle(step.now, session::Event::Release { used });
                }
            },
            session::Action::Refused => self.contender_ended(at, step.now),
            session::Action::Failed(error) => {
                let error = error.on_lock(step.env.name().clone());
                self.failure = contender.map(|contender| (contender, error));
                self.contender_ended(at, step.now);
            }
            session::Action::Lost(reason) => self.lost(step, at, reason),
            session::Action::Extended(done) => self.extended(step, slot, done),
            session::Action::Changed(token) => self.changed(step, slot, token),
            session::Action::Wanted => self.wanted(step, at),
            session::Action::Parted(granted) => self.parted(step, at, granted),
            session::Action::Released(outcome) => self.released_there(step, slot, outcome),
            session::Action::Ended => self.retire(step, at),
        }
    }

    fn contend(
        &mut self,
        step: &mut Step<'_, H>,
        contender: ContenderId,
        wait: bool,
        (fair, rank): (bool, Rank),
        service: Service,
    ) -> Result<()> {
        let terms = Terms { fair, rank, ..self.terms(step, service)? };
        if wait && self.has_many_holders {
            step.env.await_grant(terms.attempt);
        }
        let push = self.push;
        let ordered = wait && push == Push::Inbox && (fair || self.has_many_holders);
        let slot = self.slot_for(step, contender);
        let inbox = match push {
            _ if push.is_hint() => slot.overhear(step.env, &terms),
            _ if ordered => slot.line_up(step.env),
            _ => step.env.inbox(),
        };
        slot.session.handle(step.now, session::Event::Acquire { terms, wait, service, inbox });
        Ok(())
    }

    fn yield_to_others(&mut self, step: &mut Step<'_, H>, contender: ContenderId, used: u64, service: Service) {
        match step.env.mint() {
            Ok(attempt) => {
                step.effects.notices.push(Notice::Yielded { token: (used > 0).then(|| Token::new(used)) });
                self.tell(contender, step.now, session::Event::Yield { attempt, used, service });
            }
            Err(error) => {
                self.tell(contender, step.now, session::Event::Release { used });
                self.detach(contender, step.now);
                self.cannot_ask(step, contender, error);
            }
        }
    }

    fn lost(&mut self, step: &mut Step<'_, H>, at: usize, reason: LossReason) {
        let Some(contender) = self.slots[at].contender.take() else { return };
        if let Some(hold) = self.queue.held().filter(|hold| self.queue.holder(*hold) == Some(contender)) {
            self.lose_hold(step, hold, reason);
        }
        self.queue.handle(step.now, queue::Event::Lost(contender));
    }

    /// A new attempt's terms.
    pub(super) fn terms(&self, step: &mut Step<'_, H>, service: Service) -> Result<Terms> {
        Ok(Terms {
            name: step.env.name().clone(),
            attempt: step.env.mint()?,
            inbox: step.env.inbox_id()?,
            ttl: service.ttl,
            claim: claim(service.ttl),
            card: self.card.clone().unwrap_or_default(),
            fair: false,
            rank: Rank::LOWEST,
        })
    }

    fn cannot_ask(&mut self, step: &mut Step<'_, H>, contender: ContenderId, error: Error) {
        let failure = Some(error.on_lock(step.env.name().clone()));
        self.queue.handle(step.now, queue::Event::Ended { contender, failure });
    }

    fn contender_ended(&mut self, at: usize, now: Time) {
        if let Some(contender) = self.slots[at].contender.take() {
            let failure = self.failure.take_if(|(id, _)| *id == contender).map(|(_, error)| error);
            self.queue.handle(now, queue::Event::Ended { contender, failure });
        }
    }

    fn slot_for(&mut self, step: &mut Step<'_, H>, contender: ContenderId) -> &mut Slot {
        let slot = self.idle_slot(step);
        slot.contender = Some(contender);
        slot.idle = false;
        slot
    }

    /// A slot whose session can contend: the machine keeps one that is through for its next contender.
    pub(super) fn idle_slot(&mut self, step: &mut Step<'_, H>) -> &mut Slot {
        let at = self.slots.idle(step.now).unwrap_or_else(|| {
            let mut session = Session::new(step.env.protocol(), step.env.store_timeout());
            session.lend(&mut step.scratch.session);
            self.slots.push(Slot { id: 0, contender: None, session, idle: true, listens: false, behind: false })
        });
        let slot = &mut self.slots[at];
        slot.forget(step.env);
        slot.id = step.env.next_slot();
        if self.bound {
            step.effects.open_session = true;
            slot.session.handle(step.now, session::Event::Alive(step.env.alive_until()));
        }
        slot
    }

    /// The session at `at` is through.
    fn retire(&mut self, step: &mut Step<'_, H>, at: usize) {
        if self.has_many_holders {
            step.env.await_no_grant(self.slots[at].session.attempt());
        }
        self.contender_ended(at, step.now);
        let another = self.slots.idle(step.now).is_some();
        let slot = &mut self.slots[at];
        slot.idle = true;
        slot.forget(step.env);
        if slot.is_through() {
            step.effects.let_through.push(slot.id);
        }
        if another {
            self.slots.remove(at, step.now);
        }
    }

    pub(super) fn tell(&mut self, contender: ContenderId, now: Time, event: session::Event<'_>) {
        if let Some(slot) = self.slot_of(contender, now) {
            slot.session.handle(now, event);
        }
    }

    pub(super) fn detach(&mut self, contender: ContenderId, now: Time) {
        if let Some(slot) = self.slot_of(contender, now) {
            slot.contender = None;
        }
    }
}
