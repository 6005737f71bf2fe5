//! What one caller at a time does.

use ext_php_rs::convert::IntoZvalDyn;
use ext_php_rs::exception::PhpResult;
use ext_php_rs::prelude::*;
use ext_php_rs::types::Zval;
use ext_php_rs::zend::ClassEntry;

use crate::lock::Lock;
use crate::thrown::{caught, is_on_its_way, type_error};

/// Calls what a program gave. What it throws goes on its way, and so does `exit`, which PHP has there, too: it stays
/// with PHP, which takes no other for as long.
pub(crate) fn called(work: &ZendCallable<'_>, with: Vec<&dyn IntoZvalDyn>) -> PhpResult<Zval> {
    called_unless(work, with, None, || false).map(Option::unwrap_or_default)
}

/// The same; none where it throws what is of that class, and `is_expected`.
pub(crate) fn called_unless(
    work: &ZendCallable<'_>,
    with: Vec<&dyn IntoZvalDyn>,
    class: Option<&'static ClassEntry>,
    is_expected: impl FnOnce() -> bool,
) -> PhpResult<Option<Zval>> {
    let done = work.try_call(with);
    if class.is_some_and(is_on_its_way) && is_expected() {
        drop(caught());
        return Ok(None);
    }
    Ok(Some(done?))
}

/// A job that one caller at a time does, such as to rebuild a cache entry that expired.
#[php_class]
#[php(name = "Lockwright\\Once", flags = ext_php_rs::flags::ClassFlags::Final)]
#[derive(Debug)]
pub struct Once {
    pub(crate) lock: Lock,
    pub(crate) look: Zval,
    pub(crate) make: Zval,
    pub(crate) waits: bool,
}

#[php_impl]
impl Once {
    /// The value, fresh or as `make` made it; where somebody else makes it, the stale one, or what comes of waiting.
    pub fn get(&self) -> PhpResult<Zval> {
        let found = self.found()?;
        let guard = match found {
            Some((value, true)) => return Ok(value),
            Some((value, false)) if !self.waits => match self.lock.tried()? {
                Some(guard) => guard,
                None => return Ok(value),
            },
            _ => self.lock.acquired(None)?,
        };
        if let Some((value, true)) = self.found()? {
            return Ok(value);
        }
        let made = called(&callable(&self.make, "make")?, vec![&guard.token()?])?;
        drop(guard);
        Ok(made)
    }
}

impl Once {
    /// The value that there is, and whether it is fresh.
    fn found(&self) -> PhpResult<Option<(Zval, bool)>> {
        let found = called(&callable(&self.look, "look")?, vec![])?;
        if found.is_null() {
            return Ok(None);
        }
        let wrong = || type_error("look must return null, or an array of the value and whether it is fresh".into());
        let both = found.array().ok_or_else(wrong)?;
        let (value, fresh) = (both.get_index(0).ok_or_else(wrong)?, both.get_index(1).and_then(Zval::bool));
        Ok(Some((value.shallow_clone(), fresh.ok_or_else(wrong)?)))
    }
}

/// What PHP can call.
pub(crate) fn callable<'a>(of: &'a Zval, what: &str) -> PhpResult<ZendCallable<'a>> {
    of.callable().ok_or_else(|| type_error(format!("Argument ${what} must be callable")))
}
