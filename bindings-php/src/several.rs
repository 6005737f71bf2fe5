//! Several locks that are taken together, and one of several.

use std::cell::RefCell;
use std::sync::Arc;

use ext_php_rs::builders::ClassBuilder;
use ext_php_rs::class::RegisteredClass;
use ext_php_rs::convert::IntoZval;
use ext_php_rs::exception::PhpResult;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendClassObject, ZendHashTable, Zval};
use lockwright::binding::held::Group;
use lockwright::binding::{Handle, Held, Outcome, Road, lost_track, open};
use lockwright::striped::Striped as Segments;

use crate::asked::{ask, outcome};
use crate::classes;
use crate::client::Client;
use crate::guard::{Guard, extended, released_as};
use crate::lock::Lock;
use crate::thrown::thrown;
use crate::told::{self, listened_to};
use crate::value::{ended, of_token, segment, span, text};
use crate::waiting::{caught_up, concluded};

/// Locks that are acquired together.
#[php_class]
#[php(name = "Lockwright\\MultiLock", flags = ext_php_rs::flags::ClassFlags::Final)]
#[derive(Debug)]
pub struct MultiLock {
    pub(crate) core: lockwright::multi::MultiLock,
}

#[php_impl]
impl MultiLock {
    /// Waits for all of them, as `Lock::acquire` does for one.
    pub fn acquire(&self, timeout: Option<&Zval>) -> PhpResult<Zval> {
        ask(Handle::Locks(self.core.clone()), "acquire", &[timeout])
    }

    /// Their names, in the order in which they are taken.
    pub fn names(&self) -> Vec<String> {
        self.core.names().map(str::to_owned).collect()
    }
}

/// Where several guards are, and the one of a segment.
const GUARDS: &str = "guards";
const GUARD: &str = "guard";

fn keeping_guards(class: ClassBuilder) -> ClassBuilder {
    classes::keeping(listened_to(class), GUARDS)
}

fn keeping_guard(class: ClassBuilder) -> ClassBuilder {
    classes::keeping(class, GUARD)
}

/// A new object, with what it keeps.
fn object(of: impl IntoZval, property: &str, kept: impl IntoZval) -> PhpResult<Zval> {
    let mut object = of.into_zval(false)?;
    classes::set(object.object_mut().ok_or_else(|| thrown(lost_track("acquire")))?, property, kept);
    Ok(object)
}

fn kept<T: RegisteredClass>(by: &mut ZendClassObject<T>, property: &str) -> Zval {
    let by = &*by.get_mut_zend_obj();
    classes::get(by, by.get_class_entry(), property, &mut Zval::null()).map(Zval::shallow_clone).unwrap_or_default()
}

/// A guard as PHP's object, and what it holds.
fn shared(guard: Guard) -> PhpResult<(Arc<Held>, Zval)> {
    let held = guard.held.clone();
    Ok((held, guard.into_zval(false)?))
}

/// Locks that are held together: the loss of one is the loss of all. Each is given back as its guard is.
#[php_class]
#[php(name = "Lockwright\\MultiGuard", modifier = keeping_guards, flags = ext_php_rs::flags::ClassFlags::Final)]
#[derive(Debug)]
pub struct MultiGuard {
    all: Vec<Arc<Held>>,
    /// Who is told of the first loss.
    listeners: RefCell<Vec<i64>>,
}

impl MultiGuard {
    pub(crate) fn made(all: Vec<lockwright::Guard>) -> PhpResult<Zval> {
        let all = all.into_iter().map(|guard| shared(Guard::new(guard))).collect::<PhpResult<Vec<_>>>()?;
        let (all, guards): (_, Vec<Zval>) = all.into_iter().unzip();
        object(MultiGuard { all, listeners: RefCell::default() }, GUARDS, guards)
    }
}

impl Drop for MultiGuard {
    fn drop(&mut self) {
        told::forget_all(self.listeners.take());
    }
}

#[php_impl]
impl MultiGuard {
    /// The guard of each lock, which is like any other, to be released each at its own time.
    pub fn guards(self_: &mut ZendClassObject<Self>) -> Zval {
        kept(self_, GUARDS)
    }

    /// The token of each, by the name of its lock.
    pub fn tokens(&self) -> PhpResult<Zval> {
        let mut tokens = ZendHashTable::new();
        for held in &self.all {
            tokens.insert(&**held.name(), crate::value::of_token(held.token())?)?;
        }
        Ok(tokens.into_zval(false)?)
    }

    /// Whether all are certainly held at this moment.
    pub fn is_held(&self) -> bool {
        self.all.iter().all(|held| held.is_held())
    }

    /// Seconds that all are certainly held without a further renewal.
    pub fn remaining(&self) -> f64 {
        let left = |held: &Arc<Held>| held.remaining().unwrap_or_default();
        self.all.iter().map(left).min().unwrap_or_default().as_secs_f64()
    }

    /// Whether one of them was lost.
    pub fn is_lost(&self) -> bool {
        self.all.iter().any(|held| held.why().is_some())
    }

    /// Why the first of them that was lost was, as `Guard::whyLost` has it; null while none is.
    pub fn why_lost(&self) -> Option<String> {
        self.all.iter().find_map(|held| held.why()).map(|why| why.code().to_owned())
    }

    /// Calls `listener` with the reason once, when the first of them is lost; as `Guard::onLost`.
    pub fn on_lost(self_: &mut ZendClassObject<Self>, listener: &Zval) -> PhpResult<()> {
        let all = self_.all.clone();
        let number = told::on_lost(self_.get_mut_zend_obj(), &all, listener)?;
        self_.listeners.borrow_mut().push(number);
        Ok(())
    }

    /// Makes every lease last `ttl` from now, and at every renewal.
    pub fn extend(&self, ttl: &Zval) -> PhpResult<()> {
        let ttl = span("extend", "ttl", ttl)?;
        self.all.iter().try_for_each(|held| extended(held, ttl))
    }

    /// Gives all of them back in one write, and says what the store found of each, by the name of its lock. Throws the
    /// first error, having tried all.
    pub fn release(&self) -> PhpResult<Zval> {
        let begin = || Ok(Group::begin_release(Road::Thread, self.all.clone(), false));
        let Outcome::AllEnded(all) = concluded("release", begin)?.map_err(thrown)? else {
            return Err(thrown(lost_track("release")));
        };
        let mut found = ZendHashTable::new();
        for (held, ending) in self.all.iter().zip(all) {
            found.insert(&**held.name(), ended(&ending.map_err(thrown)?))?;
        }
        Ok(found.into_zval(false)?)
    }
}

/// A hot lock that is cut into segments.
#[php_class]
#[php(name = "Lockwright\\Striped", flags = ext_php_rs::flags::ClassFlags::Final)]
#[derive(Debug)]
pub struct Striped {
    pub(crate) core: Segments,
}

#[php_impl]
impl Striped {
    /// How many segments there are.
    pub fn count(&self) -> i64 {
        i64::try_from(self.core.count()).unwrap_or(i64::MAX)
    }

    /// The segment of a key.
    pub fn index_for(&self, key: &Zval) -> PhpResult<i64> {
        Ok(i64::try_from(self.core.index_for(&text("lock", "key", key)?)).unwrap_or(i64::MAX))
    }

    /// The lock of the segment of a key.
    pub fn for_key(&self, key: &Zval) -> PhpResult<Lock> {
        let index = self.core.index_for(&text("lock", "key", key)?);
        Ok(Lock::new(self.core.segment(index).clone()))
    }

    /// The lock of a segment.
    pub fn segment(&self, index: i64) -> PhpResult<Lock> {
        let index = open::segment(&self.core, index).map_err(thrown)?;
        Ok(Lock::new(self.core.segment(index).clone()))
    }

    /// The same segments at more stores, in turn: those of this one and of `others`.
    pub fn across(&self, others: &[&Client]) -> PhpResult<Striped> {
        let others: Vec<_> = others.iter().map(|other| other.core.clone()).collect();
        let core = self.core.across(&others).map_err(thrown)?;
        Ok(Striped { core })
    }

    /// Any segment that is free and not sold out; null once all are sold out.
    pub fn any(&self, timeout: Option<&Zval>) -> PhpResult<Option<Zval>> {
        let found = segment(outcome(Handle::Segments(self.core.clone()), "any", &[timeout])?)?;
        let Some((index, guard)) = found else { return Ok(None) };
        let (held, guard) = shared(guard)?;
        let segment = Segment { index, held, of: self.core.clone() };
        caught_up("any", Some(object(segment, GUARD, guard)?))
    }

    /// Every segment may be chosen again.
    pub fn restock(&self) {
        self.core.restock();
    }
}

/// A segment that is held.
#[php_class]
#[php(name = "Lockwright\\Segment", modifier = keeping_guard, flags = ext_php_rs::flags::ClassFlags::Final)]
#[derive(Debug)]
pub struct Segment {
    index: usize,
    held: Arc<Held>,
    of: Segments,
}

#[php_impl]
impl Segment {
    /// Which one.
    pub fn index(&self) -> i64 {
        i64::try_from(self.index).unwrap_or(i64::MAX)
    }

    /// Its guard, which is like any other.
    pub fn guard(self_: &mut ZendClassObject<Self>) -> Zval {
        kept(self_, GUARD)
    }

    /// Its fencing token.
    pub fn token(&self) -> PhpResult<Zval> {
        of_token(self.held.token())
    }

    /// Whether it is certainly held at this moment.
    pub fn is_held(&self) -> bool {
        self.held.is_held()
    }

    /// Calls `listener` with the reason when it is lost, as `Guard::onLost`.
    pub fn on_lost(self_: &mut ZendClassObject<Self>, listener: &Zval) -> PhpResult<()> {
        let mut guard = kept(self_, GUARD);
        let guard = guard.object_mut().and_then(ZendClassObject::from_zend_obj_mut);
        Guard::on_lost(guard.ok_or_else(|| thrown(lost_track("on_lost")))?, listener)
    }

    /// Gives it back, as `Guard::release`.
    pub fn release(&self) -> PhpResult<String> {
        released_as(&self.held)
    }

    /// The same of one that has nothing left: this object of `Striped` does not choose it again until it is restocked.
    pub fn sold_out(&self) -> PhpResult<String> {
        self.of.mark_sold_out(self.index);
        self.release()
    }
}
