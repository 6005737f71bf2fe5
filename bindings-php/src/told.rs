//! What other threads have for PHP: a lock was lost, user and password are wanted, something is to be logged. They
//! leave it here and set the flag by which PHP is interrupted between two steps of a program, as by a signal; PHP's own
//! thread takes it up then, in a wait as well. While PHP sleeps, or waits for something else, it stays here.
//!
//! What a program gave to be called is kept in a property of the guard that is to tell it, where PHP's collector of
//! cycles finds it: it may well refer to the guard.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use ext_php_rs::boxed::ZBox;
use ext_php_rs::builders::ClassBuilder;
use ext_php_rs::convert::IntoZvalDyn;
use ext_php_rs::exception::PhpResult;
use ext_php_rs::ffi;
use ext_php_rs::types::{ZendHashTable, ZendObject, Zval};
use ext_php_rs::zend::ExecutorGlobals;
use lockwright::binding::{Broker, Generational, Held, keep_signals_out, later, locked};

use crate::classes;
use crate::log;
use crate::login;
use crate::once::{callable, called};
use crate::thrown::thrown;

/// One thing that PHP's thread has to do.
enum News {
    Lost(i64, &'static str),
    Wanted(i64),
}

/// Somebody waits for user and password from who has that slot.
struct Question {
    slot: u64,
    number: u32,
}

/// Where it lies.
#[derive(Default)]
pub(crate) struct Mailbox {
    news: Mutex<VecDeque<News>>,
    questions: Mutex<VecDeque<Question>>,
    pub(crate) broker: Broker,
}

/// A forked child never touches its parent's: somebody may have been using that.
static MAILBOX: OnceLock<Generational<Mailbox>> = OnceLock::new();

/// PHP's own flag, which it looks at whenever it jumps or calls.
static FLAG: AtomicPtr<AtomicBool> = AtomicPtr::new(ptr::null_mut());
/// Whether there may be something.
static RUNG: AtomicBool = AtomicBool::new(false);

type Interrupt = unsafe extern "C" fn(*mut ffi::zend_execute_data);

/// What was called so before us, such as by signals.
static BEFORE: OnceLock<Option<Interrupt>> = OnceLock::new();

/// PHP's MINIT. Nothing is begun: it is a function that PHP may call.
pub(crate) fn register() {
    keep_signals_out();
    let globals = ExecutorGlobals::get();
    FLAG.store((&raw const globals.vm_interrupt).cast::<AtomicBool>().cast_mut(), Ordering::Release);
    drop(globals);
    // SAFETY: PHP starts, in one thread.
    unsafe {
        let before = ffi::zend_interrupt_function;
        if BEFORE.set(before).is_ok() {
            ffi::zend_interrupt_function = Some(interrupted);
        }
    }
}

unsafe extern "C" fn interrupted(frame: *mut ffi::zend_execute_data) {
    if let Some(Some(before)) = BEFORE.get() {
        // SAFETY: as PHP would call it.
        unsafe { before(frame) }
    }
    if RUNG.swap(false, Ordering::AcqRel) {
        take_up();
    }
}

/// Has PHP look here soon.
pub(crate) fn ring() {
    RUNG.store(true, Ordering::Release);
    // SAFETY: PHP's globals stay where they are for as long as it runs, and it reads the flag as an atomic of that
    // size.
    if let Some(flag) = unsafe { FLAG.load(Ordering::Acquire).as_ref() } {
        flag.store(true, Ordering::Release);
    }
}

/// How long PHP has to look at what was thrown before it is interrupted for what comes next: it would come back at
/// once, and again, before it looks.
const NEXT: Duration = Duration::from_millis(10);

/// What has to wait for what was thrown is taken up after that, or by the next wait.
fn ring_later() {
    RUNG.store(true, Ordering::Release);
    // Where no thread can be had, the next wait does it.
    drop(later(NEXT, ring_again));
}

/// What had to wait for an exception is taken up soon.
pub(crate) fn ring_again() {
    if RUNG.load(Ordering::Acquire) {
        ring();
    }
}

fn mailbox() -> &'static Arc<Mailbox> {
    MAILBOX.get_or_init(|| Generational::new(Arc::default())).get_or_make(Arc::default)
}

/// Asks PHP's thread for user and password; `limit` is how long.
///
/// # Errors
/// Why there are none.
pub(crate) fn ask(slot: u64, limit: Duration) -> login::Given {
    let mailbox = mailbox();
    mailbox.broker.ask(login::CALLABLE, limit, |number| {
        locked(&mailbox.questions).push_back(Question { slot, number });
        ring();
    })
}

/// In PHP's thread: does what there is to do, until something is thrown.
fn take_up() {
    loop {
        if ExecutorGlobals::has_exception() {
            return ring_later();
        }
        if answer() {
            continue;
        }
        let Some(news) = locked(&mailbox().news).pop_front() else { break };
        match news {
            News::Lost(number, why) => tell(number, vec![&why]),
            News::Wanted(number) => tell(number, Vec::new()),
        }
    }
    log::tell();
}

/// In PHP's thread: answers one question, and leaves all else for later. Whether there was anything.
pub(crate) fn answer() -> bool {
    let mailbox = mailbox();
    // Nothing is locked while the program is called.
    let question = locked(&mailbox.questions).pop_front();
    question.inspect(|question| mailbox.broker.give(question.number, login::answer(question.slot))).is_some()
}

thread_local! {
    /// Which guard has whom to tell, by number: each forgets its own before it goes.
    static LISTENERS: RefCell<Vec<(i64, *mut ZendObject)>> = const { RefCell::new(Vec::new()) };
}

/// Where a guard has its listeners, by number.
const PROPERTY: &str = "listeners";

/// The class of what has listeners.
pub(crate) fn listened_to(class: ClassBuilder) -> ClassBuilder {
    classes::keeping(class, PROPERTY)
}

/// Has `listener` called with the reason when the first of these is lost before it is given back; the number of that.
pub(crate) fn on_lost(of: &mut ZendObject, all: &[Arc<Held>], listener: &Zval) -> PhpResult<i64> {
    let number = listens(of, all, "on_lost", listener)?;
    for held in all {
        let mailbox = mailbox().clone();
        held.on_lost(Box::new(move |why| {
            locked(&mailbox.news).push_back(News::Lost(number, why));
            ring();
        }));
    }
    Ok(number)
}

/// Has `listener` called when the lock is asked back before it is given back; the number of that.
pub(crate) fn on_release_requested(of: &mut ZendObject, held: &Arc<Held>, listener: &Zval) -> PhpResult<i64> {
    let number = listens(of, std::slice::from_ref(held), "on_release_requested", listener)?;
    let mailbox = mailbox().clone();
    held.on_release_requested(Box::new(move || {
        locked(&mailbox.news).push_back(News::Wanted(number));
        ring();
    }));
    Ok(number)
}

fn listens(of: &mut ZendObject, all: &[Arc<Held>], operation: &'static str, listener: &Zval) -> PhpResult<i64> {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    callable(listener, "listener")?;
    all.iter().try_for_each(|held| held.is_open(operation)).map_err(thrown)?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut kept = kept(of);
    kept.insert_at_index(number, listener.shallow_clone())?;
    classes::set(of, PROPERTY, kept);
    LISTENERS.with_borrow_mut(|all| all.push((number, ptr::from_mut(of))));
    Ok(number)
}

fn kept(of: &ZendObject) -> ZBox<ZendHashTable> {
    let mut place = Zval::null();
    classes::get(of, of.get_class_entry(), PROPERTY, &mut place)
        .and_then(Zval::array)
        .map_or_else(ZendHashTable::new, ToOwned::to_owned)
}

fn taken(number: i64) -> Option<Zval> {
    let of = forget(number)?;
    // SAFETY: it has not forgotten its listener, so it is there.
    let of = unsafe { &mut *of };
    let mut kept = kept(of);
    let listener = kept.remove_index(number);
    classes::set(of, PROPERTY, kept);
    listener
}

/// Whose listener it was, who is not told any more.
pub(crate) fn forget(number: i64) -> Option<*mut ZendObject> {
    LISTENERS.with_borrow_mut(|all| {
        let at = all.iter().position(|(other, _)| *other == number)?;
        Some(all.swap_remove(at).1)
    })
}

/// The same of all that an object has, which goes.
pub(crate) fn forget_all(numbers: Vec<i64>) {
    for number in numbers {
        forget(number);
    }
}

fn tell(number: i64, what: Vec<&dyn IntoZvalDyn>) {
    let Some(listener) = taken(number) else { return };
    let told = callable(&listener, "listener").and_then(|listener| called(&listener, what));
    if let Err(exception) = told {
        exception.throw();
    }
}

/// The request ends: nothing of the program's is called any more.
pub(crate) fn ended() {
    LISTENERS.take();
    let Some(mailbox) = MAILBOX.get().and_then(Generational::current) else { return };
    locked(&mailbox.news).clear();
    let questions = std::mem::take(&mut *locked(&mailbox.questions));
    questions.iter().for_each(|question| mailbox.broker.give(question.number, Err(login::NO_REQUEST.into())));
}
