//! What is asked of the store beside the machines: a latch's count, who holds a lock, another size of a semaphore, the
//! names of all locks.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lockwright_machines::error::{Error, Kind, Result, silent_store};
use lockwright_machines::gate::Answer;
use lockwright_machines::layout_choice;
use lockwright_machines::lease::Inspection;
use lockwright_machines::machine::Event;
use lockwright_machines::name;
use lockwright_machines::protocol::{Inquiry, Layout, Question, Reply, Requests};
use lockwright_machines::time::Time;

use crate::engine::{Engine, Spot, Ticket};
use crate::store::{Answered, Job, Store};

/// How long a store that did not answer is left alone.
const PAUSE: Duration = Duration::from_millis(20);
/// How often a request may come too late until the clocks are said to run unevenly.
const LATE: u32 = 3;

/// What is to be known of a lock, or done with it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Want {
    /// Something of a gate.
    Question(Question),
    /// Who holds it.
    Inspect,
    /// What lies there.
    Identify,
    /// Another size.
    Resize(u32),
    /// That whoever holds it under this token does so no more.
    Break(u64),
    /// The same of whatever lies there.
    BreakAny(u64),
}

/// What it is about.
enum About {
    Lock(Rc<Spot>, Want),
    /// The names of all locks of a layout: what of them is to be asked yet.
    Names(Inquiry<'static, Vec<String>>),
    /// What the server does when its memory is full; how that is asked, with a prefix for where.
    Eviction(AsksEviction, Arc<str>),
}

type AsksEviction = fn(&Arc<str>) -> Inquiry<'_, Option<String>>;

/// What came of it.
#[derive(Debug)]
pub(crate) enum Found {
    Answer(Answer),
    Inspection(Box<Inspection>),
    Resized,
    Broken(bool),
    Names(Vec<String>),
    Eviction(Option<String>),
}

/// One conversation with the store. It is begun anew with every answer and plays through all that was answered before,
/// since it borrows from its layout what a step of it says; but for names, of which there may be any number of pages.
struct Conversation {
    about: About,
    said: Vec<Vec<Reply>>,
    /// Until then it asks for what it does not know yet.
    give_up: Time,
    /// Why it was not answered.
    told: Option<Error>,
    /// When to ask again.
    again_at: Option<Time>,
    late: u32,
}

enum Turn<T> {
    Ask(Requests),
    Over(Result<T>),
}

impl<T> Turn<T> {
    fn map<U>(self, map: impl FnOnce(T) -> U) -> Turn<U> {
        match self {
            Turn::Ask(requests) => Turn::Ask(requests),
            Turn::Over(result) => Turn::Over(result.map(map)),
        }
    }
}

fn play<T>(inquiry: Option<Inquiry<'_, T>>, said: &[Vec<Reply>]) -> Turn<T> {
    let Some(mut inquiry) = inquiry else {
        return Turn::Over(Err(Error::unsupported("ask", "this layout cannot be asked for that")));
    };
    let mut said = said.iter();
    loop {
        match inquiry {
            Inquiry::Done(result) => return Turn::Over(result),
            Inquiry::Ask(requests, next) => match said.next() {
                Some(replies) => inquiry = next(replies),
                None => return Turn::Ask(requests),
            },
        }
    }
}

/// Takes the `said` up into a conversation that is kept.
fn go_on(inquiry: &mut Inquiry<'static, Vec<String>>, said: &mut Vec<Vec<Reply>>) -> Turn<Vec<String>> {
    for replies in said.drain(..) {
        let so_far = std::mem::replace(inquiry, Inquiry::Done(Ok(Vec::new())));
        *inquiry = match so_far {
            Inquiry::Ask(_, next) => next(&replies),
            over => over,
        };
    }
    match inquiry {
        Inquiry::Ask(requests, _) => Turn::Ask(requests.clone()),
        Inquiry::Done(result) => Turn::Over(std::mem::replace(result, Ok(Vec::new()))),
    }
}

impl Conversation {
    fn turn(&mut self) -> Turn<Found> {
        match &mut self.about {
            About::Names(inquiry) => go_on(inquiry, &mut self.said).map(Found::Names),
            About::Lock(spot, want) => {
                let (spot, want) = (spot.clone(), *want);
                self.turn_of(&spot, want)
            }
            About::Eviction(asks, prefix) => play(Some(asks(&*prefix)), &self.said).map(Found::Eviction),
        }
    }

    fn turn_of(&self, spot: &Spot, want: Want) -> Turn<Found> {
        let Spot { layout, name, key } = spot;
        let seen = |seen| Found::Inspection(Box::new(seen));
        match want {
            Want::Question(question) => play(layout.question(key.clone(), question), &self.said).map(Found::Answer),
            Want::Resize(permits) => play(layout.resize(key.clone(), permits), &self.said).map(|()| Found::Resized),
            Want::Break(token) => play(Some(layout.break_hold(key.clone(), token)), &self.said).map(Found::Broken),
            Want::BreakAny(token) => {
                self.of_any(spot, |layout, _, key| layout.break_hold(key, token)).map(Found::Broken)
            }
            Want::Inspect => play(Some(layout.inspect(name, key.clone())), &self.said).map(seen),
            Want::Identify => self.of_any(spot, |layout, name, key| layout.identify(name, key)).map(seen),
        }
    }

    /// The conversation that `of` makes of a place: of the lock at `spot`, or of the shared record that lies in its
    /// place.
    fn of_any<T: Send>(
        &self,
        spot: &Spot,
        of: impl for<'l> Fn(&'l dyn Layout, &'l str, Arc<str>) -> Inquiry<'l, T>,
    ) -> Turn<T> {
        let others = layout_choice::shared_beside(&*spot.layout);
        let at = |layout| of(layout, &spot.name, spot.key.clone());
        play(Some(at(&*spot.layout).or(others.iter().map(|other| at(&**other)))), &self.said)
    }

    /// When it asks again, or gives up.
    fn due(&self) -> Time {
        self.again_at.unwrap_or(self.give_up)
    }

    fn explain(&self, error: Error) -> Error {
        match &self.about {
            About::Lock(spot, _) => error.on_lock(spot.name.clone()),
            About::Names(_) | About::Eviction(..) => error,
        }
    }
}

/// All conversations of a client.
#[derive(Default)]
pub(crate) struct Inquiries {
    open: HashMap<Ticket, Conversation>,
    found: HashMap<Ticket, Result<Found>>,
}

impl Inquiries {
    pub(crate) fn is_settled(&self, ticket: Ticket) -> bool {
        self.found.contains_key(&ticket)
    }

    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Result<Found>> {
        self.found.remove(&ticket)
    }

    /// Nobody wants to know any more.
    pub(crate) fn forget(&mut self, ticket: Ticket) {
        self.open.remove(&ticket);
        self.found.remove(&ticket);
    }

    pub(crate) fn due(&self) -> Option<Time> {
        self.open.values().map(Conversation::due).min()
    }

    /// Those for which there is something to do at `now`.
    fn those_due(&self, now: Time) -> Vec<Ticket> {
        self.open.iter().filter(|(_, conversation)| conversation.due() <= now).map(|(ticket, _)| *ticket).collect()
    }

    /// None of them is answered any more.
    pub(crate) fn close(&mut self) {
        let closed = || Error::new(Kind::Closed, "ask", "the client was closed; connect again");
        self.found.extend(self.open.drain().map(|(ticket, _)| (ticket, Err(closed()))));
    }
}

impl<S: Store> Engine<S> {
    /// Asks the store. The ticket for what is found.
    ///
    /// # Errors
    /// `closed`.
    pub(crate) fn inquire(&mut self, now: Time, spot: &Rc<Spot>, want: Want) -> Result<Ticket> {
        self.converse(now, About::Lock(spot.clone(), want))
    }

    /// Asks for the names of all locks there are, held or remembered, in the layout of this client's address.
    /// [`listed`](Self::listed) has the answer.
    ///
    /// # Errors
    /// `closed`, and what there is against that layout.
    pub fn list(&mut self, now: Time) -> Result<Ticket> {
        let layout = self.default_layout()?;
        self.converse(now, About::Names(layout.list()))
    }

    /// The names, in order.
    ///
    /// # Errors
    /// `unavailable`, and what the store says.
    pub fn listed(&mut self, ticket: Ticket) -> Result<Vec<String>> {
        match self.inquiries.take(ticket) {
            Some(Ok(Found::Names(names))) => Ok(name::listed(names)),
            other => Err(unanswered("list", other)),
        }
    }

    /// Asks what the server does when its memory is full. [`evicts`](Self::evicts) has the answer.
    ///
    /// # Errors
    /// `closed`.
    pub fn ask_eviction(&mut self, now: Time) -> Result<Ticket> {
        let prefix = Arc::from(&*self.settings().options.prefix);
        self.converse(now, About::Eviction(S::eviction, prefix))
    }

    /// The server's word for it, where this user may know.
    ///
    /// # Errors
    /// `unavailable`, and what the store says.
    pub fn evicts(&mut self, ticket: Ticket) -> Result<Option<String>> {
        match self.inquiries.take(ticket) {
            Some(Ok(Found::Eviction(policy))) => Ok(policy),
            other => Err(unanswered("ping", other)),
        }
    }

    fn converse(&mut self, now: Time, about: About) -> Result<Ticket> {
        self.check_open()?;
        let ticket = self.next_ticket();
        let give_up = now.after(self.settings().store_timeout());
        let conversation = Conversation { about, said: Vec::new(), give_up, told: None, again_at: None, late: 0 };
        self.inquiries.open.insert(ticket, conversation);
        self.continue_inquiry(ticket);
        self.go_on(now);
        Ok(ticket)
    }

    fn continue_inquiry(&mut self, ticket: Ticket) {
        let Some(conversation) = self.inquiries.open.get_mut(&ticket) else { return };
        match conversation.turn() {
            Turn::Ask(requests) => self.store_mut().ask(Job::Inquiry(ticket), requests),
            Turn::Over(result) => self.conclude_inquiry(ticket, result),
        }
    }

    fn conclude_inquiry(&mut self, ticket: Ticket, mut result: Result<Found>) {
        let Some(conversation) = self.inquiries.open.remove(&ticket) else { return };
        if let (About::Lock(spot, _), Ok(Found::Inspection(seen))) = (&conversation.about, &mut result)
            && seen.waiters > 0
        {
            seen.ahead = self.places(&spot.key);
        }
        let address = self.settings().address.clone();
        let result = result.map_err(|error| conversation.explain(error).on_store(address));
        self.inquiries.found.insert(ticket, result);
    }

    /// Those that are due ask again, or give up.
    pub(crate) fn look_at_inquiries(&mut self, now: Time) {
        for ticket in self.inquiries.those_due(now) {
            let Some(conversation) = self.inquiries.open.get_mut(&ticket) else { continue };
            conversation.again_at = None;
            if now < conversation.give_up {
                self.continue_inquiry(ticket);
            } else {
                let error = conversation.told.take().unwrap_or_else(|| silent_store("ask"));
                self.conclude_inquiry(ticket, Err(error));
            }
        }
    }

    pub(crate) fn inquiry_answered(&mut self, now: Time, ticket: Ticket, sent: Time, answered: Answered) {
        let give_up = now.after(self.settings().store_timeout());
        let Some(conversation) = self.inquiries.open.get_mut(&ticket) else { return };
        let error = match answered {
            Answered::Replies(replies) => {
                conversation.said.push(replies);
                conversation.give_up = give_up;
                return self.inquiry_went_on(now, ticket, sent);
            }
            Answered::NotSent(error) | Answered::Unknown { error, .. } => error,
        };
        if error.kind() != Kind::Unavailable {
            return self.conclude_inquiry(ticket, Err(error));
        }
        conversation.told = Some(error);
        conversation.again_at = Some(now.after(PAUSE).min(conversation.give_up));
    }

    fn inquiry_went_on(&mut self, now: Time, ticket: Ticket, sent: Time) {
        let Some(conversation) = self.inquiries.open.get_mut(&ticket) else { return };
        match conversation.turn() {
            // What came too late says what time it is at the store, so that the next one does not.
            Turn::Over(Ok(Found::Answer(Answer::Late(at)))) => {
                conversation.said.clear();
                conversation.late += 1;
                let is_uneven = conversation.late >= LATE;
                self.store_mut().learn(sent, at);
                if is_uneven {
                    let late = "the store finds every request too late; see whether its clock runs evenly";
                    self.conclude_inquiry(ticket, Err(Error::new(Kind::Unavailable, "ask", late)));
                } else {
                    self.continue_inquiry(ticket);
                }
            }
            Turn::Over(result) => {
                self.tell_of_break(now, ticket, &result);
                self.conclude_inquiry(ticket, result);
            }
            Turn::Ask(requests) => self.store_mut().ask(Job::Inquiry(ticket), requests),
        }
    }

    /// Whoever holds here what was to be broken learns of it at once.
    fn tell_of_break(&mut self, now: Time, ticket: Ticket, result: &Result<Found>) {
        let Some(Conversation { about: About::Lock(spot, Want::Break(token) | Want::BreakAny(token)), .. }) =
            self.inquiries.open.get(&ticket)
        else {
            return;
        };
        let (Ok(Found::Broken(broken)), spot, token) = (result, spot.clone(), *token) else { return };
        self.entries_of(now, &spot.key, || if *broken { Event::Broken { token } } else { Event::Verify });
    }
}

/// Why there is no answer of the kind that was asked for.
pub(crate) fn unanswered(operation: &'static str, other: Option<Result<Found>>) -> Error {
    match other {
        Some(Err(error)) => error,
        _ => Error::new(Kind::Internal, operation, "a question has no answer of its own; please report this"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use lockwright_machines::protocol::{Call, Request};

    use super::*;

    static LIST: Call = Call { name: "list", body: &[], batch: false };

    #[test]
    fn each_page_of_a_list_is_read_once() {
        let reads = Arc::new(AtomicUsize::new(0));
        let (counts, pages) = (reads.clone(), 100);
        let mut asked = Inquiry::pages(
            |cursor| Request::new(&LIST, "*".into(), [cursor.into()]),
            move |_| {
                let page = counts.fetch_add(1, Ordering::Relaxed) + 1;
                Ok((vec![page.to_string()], (page < pages).then(|| page.to_string())))
            },
        );
        let mut said = Vec::new();
        let listed = loop {
            match go_on(&mut asked, &mut said) {
                Turn::Ask(requests) => said.push(vec![Reply::Nil; requests.len()]),
                Turn::Over(result) => break result,
            }
        };
        assert_eq!((listed.map(|names| names.len()).ok(), reads.load(Ordering::Relaxed)), (Some(pages), pages));
    }
}
