//! The jobs of what waits, and the mail for Java: what ended, who is to look again, which locks were lost, what
//! happened.
//!
//! A caller that begins a job polls it once itself, if nobody else is polling, so that its request is on the way when
//! it returns. Everything else is polled by the thread of Java's that takes the mail, which waits where the jobs'
//! sockets are, and the bell. What that thread begins itself, while it completes what it took, is sent in one write as
//! it comes back.

use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::sync::{Mutex, OnceLock};
use std::thread::{self, ThreadId};

use lockwright::Result;
use lockwright::binding::Outcome;
use lockwright::binding::jobs::{Ended, Jobs, Sends};
use lockwright::binding::report::{self, Backlog};
use lockwright::event_loop::Seen;
use lockwright::events::Event;

use crate::locked;
use crate::reply::Reply;
use crate::report::CAPACITY;
use crate::wire::Request;

pub(crate) struct Agenda {
    jobs: Jobs,
    /// Held by whoever polls.
    turning: Mutex<()>,
    /// Who took the mail last, and comes back for more.
    taker: Mutex<Option<ThreadId>>,
    open: Mutex<HashSet<u32>>,
    mail: Mutex<Mail>,
}

#[derive(Default)]
struct Mail {
    messages: Vec<Message>,
    news: Backlog,
    /// The taker will look.
    rung: bool,
    /// The taker is to return though there may be nothing.
    nudged: bool,
}

/// What Java is told.
pub(crate) enum Message {
    /// A job did, with this reply.
    Ended(u32, Reply),
    /// Whoever waits under that number is to look.
    Rang(u64),
    /// The lock of the guard of that number is.
    Lost(u64, &'static str),
    /// Somebody asks for the lock of the guard of that number back.
    Wanted(u64),
    /// The source of that number is to give user and password.
    Asked { whom: u64, question: u32 },
}

mod kind {
    pub(super) const ENDED: u8 = 0;
    pub(super) const RANG: u8 = 1;
    pub(super) const LOST: u8 = 2;
    pub(super) const ASKED: u8 = 3;
    pub(super) const NEWS: u8 = 4;
    pub(super) const WANTED: u8 = 5;
}

/// That of this process.
pub(crate) fn agenda() -> Result<&'static Agenda> {
    static AGENDA: OnceLock<Result<Agenda>> = OnceLock::new();
    AGENDA.get_or_init(Agenda::new).as_ref().map_err(Clone::clone)
}

/// Leaves a message, if there is an agenda.
pub(crate) fn post(message: Message) {
    if let Ok(agenda) = agenda() {
        agenda.with_mail(|mail| mail.messages.push(message));
    }
}

/// Leaves an event, which is counted only where too many wait already.
pub(crate) fn post_news(event: Event) {
    let Ok(agenda) = agenda() else { return };
    agenda.with_mail(|mail| {
        mail.news.push(event, CAPACITY);
    });
}

impl Agenda {
    fn new() -> Result<Self> {
        Ok(Agenda {
            jobs: Jobs::new(None, Sends::InTurns)?,
            turning: Mutex::default(),
            taker: Mutex::default(),
            open: Mutex::default(),
            mail: Mutex::default(),
        })
    }

    /// Begins a job: its result, if it has one already, or its number.
    pub(crate) fn begin(&self, work: impl Future<Output = Result<Outcome>> + Send + 'static) -> Reply {
        let job = {
            // Nobody may find it ended before it is known here.
            let mut open = locked(&self.open);
            let job = self.jobs.begin(work);
            open.insert(job);
            job
        };
        if *locked(&self.taker) == Some(thread::current().id()) {
            return Reply::pending(job);
        }
        match self.turning.try_lock() {
            Ok(_turning) => self.jobs.go_on(),
            // Who polls may have looked for the last time; a virtual thread must not wait here.
            Err(_) => {
                self.ring();
                return Reply::pending(job);
            }
        }
        let mut mine = None;
        let others: Vec<Message> = self
            .replies(self.jobs.ended())
            .filter_map(|(number, reply)| match number == job {
                true => {
                    mine = Some(reply);
                    None
                }
                false => Some(Message::Ended(number, reply)),
            })
            .collect();
        if !others.is_empty() {
            self.with_mail(|mail| mail.messages.extend(others));
        }
        mine.unwrap_or_else(|| Reply::pending(job))
    }

    fn replies(&self, ended: Vec<Ended>) -> impl Iterator<Item = (u32, Reply)> {
        let reply = |(job, result)| locked(&self.open).remove(&job).then(|| (job, Reply::result(result)));
        ended.into_iter().filter_map(reply)
    }

    fn with_mail(&self, leave: impl FnOnce(&mut Mail)) {
        leave(&mut locked(&self.mail));
        self.ring();
    }

    fn ring(&self) {
        let is_rung = std::mem::replace(&mut locked(&self.mail).rung, true);
        if !is_rung {
            self.jobs.ring();
        }
    }

    /// The mail, waited for; nothing where the taker was nudged.
    fn take(&self) -> (Vec<Message>, VecDeque<Event>) {
        // Before the jobs are polled: what another thread began as the taker that it was is among them.
        *locked(&self.taker) = Some(thread::current().id());
        let mut seen = Seen::default();
        loop {
            // Before the jobs are polled: whoever rings from here on may have begun one after that.
            locked(&self.mail).rung = false;
            {
                let _turning = locked(&self.turning);
                self.jobs.turn_to(seen);
            }
            let (ended, are_more) = self.jobs.ended_portion();
            let ended: Vec<_> = self.replies(ended).map(|(job, reply)| Message::Ended(job, reply)).collect();
            let mut mail = locked(&self.mail);
            mail.messages.extend(ended);
            if std::mem::take(&mut mail.nudged) || !mail.messages.is_empty() || !mail.news.is_empty() {
                return (std::mem::take(&mut mail.messages), mail.news.take());
            }
            drop(mail);
            // All of a portion may be forgotten in this moment.
            seen = if are_more { Seen::default() } else { self.jobs.wait() };
        }
    }
}

/// The mail. It blocks, and one thread at a time may call it.
pub(crate) fn take(_: &mut Request<'_>) -> Result<Reply> {
    let (messages, news) = agenda()?.take();
    let mut reply = Reply::default();
    reply.count(u32::try_from(messages.len() + news.len()).unwrap_or(u32::MAX));
    for message in messages {
        match message {
            Message::Ended(job, ended) => {
                reply.byte(kind::ENDED);
                reply.count(job);
                reply.bytes(ended);
            }
            Message::Rang(number) => {
                reply.byte(kind::RANG);
                reply.long(number);
            }
            Message::Lost(guard, why) => {
                reply.byte(kind::LOST);
                reply.long(guard);
                reply.text(why);
            }
            Message::Wanted(guard) => {
                reply.byte(kind::WANTED);
                reply.long(guard);
            }
            Message::Asked { whom, question } => {
                reply.byte(kind::ASKED);
                reply.long(whom);
                reply.count(question);
            }
        }
    }
    for event in news {
        reply.byte(kind::NEWS);
        reply.value(report::event(event).into());
    }
    Ok(reply)
}

/// Has the taker return, to see whether it is still needed.
pub(crate) fn nudge(_: &mut Request<'_>) -> Result<Reply> {
    agenda()?.with_mail(|mail| mail.nudged = true);
    Ok(crate::verb::done())
}

/// Gives up a job: whether it had not ended yet. What ended is told all the same.
pub(crate) fn forget(request: &mut Request<'_>) -> Result<Reply> {
    let (agenda, job) = (agenda()?, request.job()?);
    let open = locked(&agenda.open).remove(&job);
    if open {
        agenda.jobs.forget(job);
    }
    Ok(Reply::told(open))
}

#[cfg(test)]
mod tests {
    use lockwright::Client;
    use lockwright::binding::operation::{Of, Operation};
    use lockwright::binding::{Handle, lost_track};
    use lockwright::options::ConnectOptions;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_rung(agenda: &Agenda) -> bool {
        let jobs = agenda.jobs.descriptor();
        poll(&mut [PollFd::new(&jobs, PollFlags::IN)], Some(&Timespec::default())) == Ok(1)
    }

    fn ping() -> Result<impl Future<Output = Result<Outcome>> + Send + 'static> {
        let client = Client::open(Some("memory://agenda"), ConnectOptions::default())?;
        let ping = Operation::find(Of::Client, "ping").ok_or_else(|| lost_track("call"))?;
        Ok(ping.run(Handle::Client(client), Vec::new()))
    }

    /// Whether it is the one job whose end the mail tells.
    fn is_told(agenda: &Agenda, pending: Reply) -> bool {
        let (mail, _) = agenda.take();
        let [Message::Ended(job, _)] = mail[..] else { return false };
        pending.into_bytes() == Reply::pending(job).into_bytes()
    }

    #[test]
    fn what_begins_while_another_polls_wakes_the_taker() -> Result<()> {
        let agenda = Agenda::new()?;
        // Whoever polls has looked for the last time, and does not know of this job; the taker sleeps.
        let turning = locked(&agenda.turning);
        let pending = agenda.begin(ping()?);
        drop(turning);
        assert!(is_rung(&agenda));
        // The taker polls it, and has its end.
        assert!(is_told(&agenda, pending));
        Ok(())
    }

    /// Takes mail without anything in it, as a thread that comes back for more.
    fn look(agenda: &Agenda) {
        agenda.with_mail(|mail| mail.nudged = true);
        assert!(agenda.take().0.is_empty());
    }

    fn ends_at_once(agenda: &Agenda) -> Result<bool> {
        agenda.begin(ping()?);
        Ok(agenda.jobs.is_idle())
    }

    #[test]
    fn what_the_taker_begins_goes_on_as_it_comes_back_and_what_others_begin_at_once() -> Result<()> {
        let agenda = Agenda::new()?;
        look(&agenda);
        let pending = agenda.begin(ping()?);
        assert!(agenda.jobs.ended().is_empty() && is_told(&agenda, pending));
        let elsewhere = thread::scope(|scope| scope.spawn(|| ends_at_once(&agenda)).join());
        assert!(elsewhere.unwrap_or(Ok(false))?);
        Ok(())
    }

    /// The jobs whose end the next mail tells.
    fn told(agenda: &Agenda) -> Vec<u32> {
        let (mail, _) = agenda.take();
        mail.iter().filter_map(|message| if let Message::Ended(job, _) = message { Some(*job) } else { None }).collect()
    }

    #[test]
    fn of_many_that_ended_together_a_portion_is_taken_at_a_time_and_nobody_waits_for_forgotten_ones() -> Result<()> {
        let agenda = Agenda::new()?;
        look(&agenda);
        for _ in 0..20 {
            agenda.begin(ping()?);
        }
        let first = told(&agenda);
        let mut left: Vec<_> = locked(&agenda.open).iter().copied().collect();
        left.sort_unstable();
        assert_eq!((first.len(), left.len()), (5, 15));
        let last = left.split_off(13);
        for job in left {
            locked(&agenda.open).remove(&job);
            agenda.jobs.forget(job);
        }
        assert_eq!(told(&agenda), last);
        Ok(())
    }

    #[test]
    fn what_a_thread_begins_that_took_mail_once_begins_at_once() -> Result<()> {
        let agenda = Agenda::new()?;
        look(&agenda);
        let replaced = thread::scope(|scope| scope.spawn(|| look(&agenda)).join().is_ok());
        assert!(replaced && ends_at_once(&agenda)?);
        Ok(())
    }
}
