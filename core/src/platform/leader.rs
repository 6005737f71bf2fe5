//! Who runs the background's tasks: its own thread, or, instead of it, a thread of the program that asks stores one
//! thing after the other. While that waits for an answer it has nothing else to do, and what it asked and is answered
//! then needs no way to another thread and back. In the pattern's terms (Leader/Followers, Schmidt et al. 2000) it is
//! the leader meanwhile.
//!
//! Only one that is alone leads: where several wait, each would hand on to the next as soon as it has its own answer.
//! The background's thread comes back at once where somebody else waits, and otherwise once nobody has led for a while.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::mutex::locked;

/// How many calls that find nobody else show that more of them will come: for less it is not worth it to send the
/// background's thread away.
const LONE: u32 = 4;
/// How long the background's thread looks on while nobody leads, at first and where others led again and again: the
/// tasks stand still for at most twice as long.
const LULL: Duration = Duration::from_millis(1);
const LONGEST_LULL: Duration = Duration::from_millis(4);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Leadership {
    state: Mutex<State>,
    changed: Condvar,
    /// The background's thread is to let somebody lead.
    pub(super) wanted: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// How many threads wait for the answer to what they asked.
    calls: u32,
    /// How many wait for what the tasks bring them.
    waits: u32,
    /// How many calls have led.
    led: u64,
    /// How many of the last found nobody else.
    lone: u32,
    /// One of the calls does.
    is_led: bool,
    /// The background's thread does not.
    is_away: bool,
    is_over: bool,
}

impl State {
    /// Somebody waits, and nobody runs the tasks unless the background's thread does.
    fn needs_the_background(&self) -> bool {
        !self.is_led && self.calls + self.waits > 0
    }
}

/// A thread asks something and waits for the answer, until this is dropped.
#[derive(Debug)]
pub(super) struct Call<'a> {
    leadership: &'a Leadership,
    /// It is to run the tasks.
    pub(super) leads: bool,
    has_led: Cell<bool>,
}

/// A thread waits for what the tasks bring, until this is dropped.
#[derive(Debug)]
pub(super) struct Waiting<'a>(&'a Leadership);

impl Leadership {
    /// Begins a call, of a thread that is free to lead or is not.
    pub(super) fn call(&self, is_free: bool) -> Call<'_> {
        let (leads, asks) = self.change(|state| {
            state.calls += 1;
            let is_alone = is_free && state.calls == 1 && state.waits == 0;
            state.lone = if is_alone { state.lone.saturating_add(1) } else { 0 };
            let leads = state.lone >= LONE;
            state.is_led |= leads;
            (leads, leads && !state.is_away)
        });
        if asks {
            self.wanted.notify_one();
        }
        Call { leadership: self, leads, has_led: Cell::new(false) }
    }

    pub(super) fn wait(&self) -> Waiting<'_> {
        self.change(|state| state.waits += 1);
        Waiting(self)
    }

    /// Has the background's thread come back where that makes it needed.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = locked(&self.state);
        let changed = change(&mut state);
        let recalls = state.is_away && state.needs_the_background();
        drop(state);
        if recalls {
            self.changed.notify_one();
        }
        changed
    }

    /// In the background's thread: lets others lead until it is needed; whether it ever is.
    pub(super) fn follow(&self) -> bool {
        let mut state = locked(&self.state);
        state.is_away = true;
        let mut lull = LULL;
        loop {
            let led = state.led;
            let is_left = |state: &mut State| !state.needs_the_background() && !state.is_over;
            let looked = self.changed.wait_timeout_while(state, lull, is_left);
            state = looked.unwrap_or_else(PoisonError::into_inner).0;
            let is_quiet = state.led == led && !state.is_led;
            if !is_left(&mut state) || is_quiet {
                state.is_away = false;
                return !state.is_over;
            }
            lull = LONGEST_LULL.min(lull * 2);
        }
    }

    /// Nobody needs the tasks any more.
    #[cfg(feature = "bindings")]
    pub(super) fn end(&self) {
        locked(&self.state).is_over = true;
        self.wanted.notify_one();
        self.changed.notify_one();
    }
}

impl Call<'_> {
    /// The tasks were run. Whoever is answered without that is not relied upon, as often as it may call.
    pub(super) fn has_led(&self) {
        self.has_led.set(true);
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.leadership.change(|state| {
            state.calls -= 1;
            state.led += u64::from(self.leads);
            state.is_led &= !self.leads;
            // Its next calls leave the tasks to the background's thread.
            if self.leads && !self.has_led.get() {
                state.lone = 0;
            }
        });
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.waits -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next call of one that is alone leads, and the background's thread is away.
    fn left() -> Leadership {
        let leadership = Leadership::default();
        (1..LONE).for_each(|_| assert!(!leadership.call(true).leads));
        locked(&leadership.state).is_away = true;
        leadership
    }

    fn is_recalled(leadership: &Leadership) -> bool {
        locked(&leadership.state).needs_the_background()
    }

    #[test]
    fn whoever_calls_alone_again_and_again_leads() {
        let leadership = left();
        let call = leadership.call(true);
        assert!(call.leads);
        call.has_led();
        drop(call);
        assert!(leadership.call(true).leads);
        assert!(!is_recalled(&leadership), "nobody else waits");
    }

    #[test]
    fn whoever_was_answered_without_the_tasks_leaves_them_to_the_background() {
        let leadership = left();
        assert!(leadership.call(true).leads);
        let call = leadership.call(true);
        assert!(!call.leads && is_recalled(&leadership));
    }

    #[test]
    fn whoever_calls_beside_another_does_not_and_neither_do_those_who_come_next() {
        let leadership = left();
        let (first, second) = (leadership.call(true), leadership.call(true));
        assert_eq!((first.leads, second.leads), (true, false));
        assert!(!is_recalled(&leadership), "the first leads for both");
        drop(first);
        assert!(is_recalled(&leadership), "the second has nobody");
        drop(second);
        assert!(!leadership.call(true).leads);
    }

    #[test]
    fn whoever_waits_has_the_background_lead() {
        let leadership = left();
        let waiting = leadership.wait();
        assert!(is_recalled(&leadership));
        assert!(!leadership.call(true).leads);
        drop(waiting);
        let leadership = left();
        let call = leadership.call(true);
        let _waiting = leadership.wait();
        assert!(!is_recalled(&leadership), "the call leads");
        drop(call);
        assert!(is_recalled(&leadership));
    }

    #[test]
    fn whoever_is_not_free_does_not_lead_and_has_the_background_come_back() {
        let leadership = left();
        let call = leadership.call(false);
        assert!(!call.leads);
        assert!(is_recalled(&leadership));
    }
}
