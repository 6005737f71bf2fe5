//! A store of [records](super::records) in some database.

use std::sync::{Arc, Weak};

use lockwright_machines::store_clock::StoreClock;
use lockwright_machines::stores::sql;
use lockwright_machines::stores::sql::of_connection::{Of, Wanted};

use super::database::Database;
use super::joined::{Statements, is_statement};
use super::patience::{Patience, silent};
use super::records::Records;
use super::rows::Rows;
use super::session::Session;
use super::table::Failure;
use crate::finding::Finding;
use crate::platform::{clock, runtime};
use crate::protocol::{Call, Inquiry, Layout, Reply, Request, Requests};
use crate::session::Inbox;
use crate::stores::adapter::{
    Answered, BoxFuture, Closing, Ends, Outcome, Schema, Sink, Store, Subscription, Topic, not_sent,
};
use crate::time::Time;

/// See the [module](self).
pub(crate) struct SqlStore<D> {
    records: Arc<Records<D>>,
    statements: Statements<D>,
    session: Session<D>,
    rows: Arc<Rows<D>>,
    patience: Patience,
    layouts: Vec<Arc<dyn Layout>>,
    closing: Closing,
}

impl<D: Database> SqlStore<D> {
    /// One whose idea of the database's clock is `clock`. Does nothing yet: the first request dials.
    pub(crate) fn new(database: D, clock: Arc<StoreClock>, layouts: Vec<Arc<dyn Layout>>) -> Self {
        let patience = Patience { response_timeout: database.config().response_timeout, longest: database.longest() };
        SqlStore {
            records: Arc::new(Records::new(database.clone(), clock.clone(), patience)),
            statements: Statements::new(database.clone(), clock, patience),
            session: Session::new(database.clone()),
            rows: Arc::new(Rows::new(database, patience)),
            patience,
            layouts,
            closing: Closing::default(),
        }
    }

    async fn perform(&self, requests: &[Request], limit: Time) -> Answered {
        if let [request] = requests
            && [D::MAKE, D::EXAMINATION.call].iter().any(|call| std::ptr::eq(*call, request.call))
        {
            return self.operate(request.call, limit).await;
        }
        let place = requests.first().map_or(Place::Records, Place::of);
        match requests.iter().all(|request| Place::of(request) == place) {
            true => self.on(place, requests, limit).await,
            false => self.on_several(requests, limit).await,
        }
    }

    async fn on_records(&self, requests: &[Request], limit: Time) -> Answered {
        let answered = self.records.perform(requests, limit).await;
        if self.records.is_to_be_swept()
            && let Ok(handle) = runtime::handle()
        {
            let records = self.records.clone();
            handle.spawn(async move { records.sweep().await });
        }
        answered
    }

    async fn on(&self, place: Place, requests: &[Request], limit: Time) -> Answered {
        match place {
            Place::Records => self.on_records(requests, limit).await,
            Place::Statements => self.statements.perform(requests, limit).await,
            Place::Session => self.session.perform(requests, limit).await,
            Place::Rows => self.rows.perform(requests, limit).await,
        }
    }

    /// What locks of several layouts want at once, one layout after the other.
    async fn on_several(&self, requests: &[Request], limit: Time) -> Answered {
        let (mut began, mut parts) = (None, Vec::new());
        for place in [Place::Records, Place::Statements, Place::Session, Place::Rows] {
            let here = |(_, request): &(usize, &Request)| Place::of(request) == place;
            let (places, part): (Vec<_>, Vec<_>) = requests.iter().enumerate().filter(here).unzip();
            if part.is_empty() {
                continue;
            }
            let Answered { sent, outcome } =
                self.on(place, &part.into_iter().cloned().collect::<Vec<_>>(), limit).await;
            let outcome = match (outcome, began) {
                (Outcome::Replies(done), _) => {
                    parts.push((places, done));
                    began = began.or(Some(sent));
                    continue;
                }
                // What went before is done.
                (Outcome::NotSent(error), Some(_)) => Outcome::Unknown { error, void_after: clock::now() },
                (other, _) => other,
            };
            return Answered { sent: began.unwrap_or(sent), outcome };
        }
        Answered { sent: began.unwrap_or_else(clock::now), outcome: Outcome::Replies(as_asked(parts)) }
    }

    /// What the operator asks for, which may be asked for again whatever came of it.
    async fn operate(&self, call: &'static Call, limit: Time) -> Answered {
        let sent = clock::now();
        let (table, patience) = (&self.records.table, limit.since(sent));
        let done = match std::ptr::eq(call, D::MAKE) {
            true => table.make(patience).await.map(|()| Reply::Nil),
            false => table.said(patience).await.map(Reply::Text),
        };
        match done {
            Ok(reply) => Answered { sent, outcome: Outcome::Replies(vec![reply]) },
            Err(Failure::NotDone(error) | Failure::Unknown(error)) => not_sent(error),
            Err(Failure::Again) => not_sent(silent()),
        }
    }
}

/// The replies to parts of a write, each with the places of its requests there, in the order of that.
fn as_asked(parts: Vec<(Vec<usize>, Vec<Reply>)>) -> Vec<Reply> {
    let mut replies: Vec<_> = parts.into_iter().flat_map(|(places, done)| places.into_iter().zip(done)).collect();
    replies.sort_by_key(|(place, _)| *place);
    replies.into_iter().map(|(_, reply)| reply).collect()
}

/// By what a request is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Records,
    Statements,
    Session,
    Rows,
}

impl Place {
    fn of(request: &Request) -> Self {
        match Wanted::of(request) {
            Some((Of::Name, _)) => Place::Session,
            Some((Of::Row, _)) => Place::Rows,
            None if is_statement(request) => Place::Statements,
            None => Place::Records,
        }
    }
}

/// Ends the listening at an inbox.
#[derive(Default)]
struct Listened(Closing);

impl Ends for Listened {
    fn ended(&self) {
        self.0.close();
    }
}

impl<D: Database> Store for SqlStore<D> {
    fn address(&self) -> &Arc<str> {
        &self.records.table.config().address
    }

    fn layouts(&self) -> &[Arc<dyn Layout>] {
        &self.layouts
    }

    fn call_async<'a>(&'a self, requests: &'a Requests, limit: Time) -> BoxFuture<'a, Answered> {
        Box::pin(self.perform(requests, limit))
    }

    /// Not boxed, since it stays where it is.
    fn call(&self, requests: &Requests, limit: Time) -> Answered {
        runtime::block_on(self.perform(requests, limit)).unwrap_or_else(not_sent)
    }

    fn void_after(&self, given_up: Time, _: Time) -> Time {
        self.patience.void_after(given_up)
    }

    fn subscribe(self: Arc<Self>, topic: Topic<'_>, sink: Weak<dyn Sink>) -> Subscription {
        let inbox = match topic {
            Topic::Inbox(inbox) => inbox,
            Topic::Session => {
                self.session.tell(sink);
                return Subscription::of(Inbox::Closed).in_background(Box::new(move || {
                    let store = self.clone();
                    Box::pin(async move { store.session.run().await })
                }));
            }
            Topic::Channel { channel, key } => return self.records.table.hear(channel, key, sink),
        };
        let wanted = Arc::new(Listened::default());
        let ends = wanted.clone();
        let listen = move || -> BoxFuture<'static, ()> {
            let (store, sink, wanted) = (self.clone(), sink.clone(), wanted.clone());
            Box::pin(async move {
                let listens = store.records.table.listen(inbox, sink);
                store.closing.cuts_short(wanted.0.cuts_short(listens)).await;
            })
        };
        Subscription::of(Inbox::Closed).until(ends).in_background(Box::new(listen))
    }

    fn schema(&self) -> Option<Schema<'_>> {
        Some(Schema { text: D::SCHEMA, make: sql::make(D::MAKE) })
    }

    fn examine(&self) -> Inquiry<'_, Vec<Finding>> {
        D::EXAMINATION.examine(clock::wall)
    }

    fn close(&self) {
        self.closing.close();
        self.session.close();
        self.rows.close();
        self.records.table.close();
    }
}

impl<D: Database> std::fmt::Debug for SqlStore<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SqlStore({})", self.records.table.config().address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_in_parts_is_answered_in_one() {
        let of = |places: &[usize]| {
            (places.to_vec(), places.iter().map(|place| Reply::Int(*place as i64)).collect::<Vec<_>>())
        };
        let answered = as_asked(vec![of(&[0, 3]), of(&[2, 4]), of(&[1])]);
        assert_eq!(answered, [0, 1, 2, 3, 4].map(Reply::Int));
    }
}
