//! What locks did, what helps to use a token, and what this binding must have.

use ext_php_rs::convert::IntoZval;
use ext_php_rs::exception::PhpResult;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};
use lockwright::binding::{manifest, report};
use lockwright::{Token, kit, metrics};

use crate::classes::errors;
use crate::thrown::thrown;
use crate::value::{is_there, of_token, record, span, text, token};

/// A distribution of times from 1 us to 19 hours, in seconds, each kept to two digits.
#[php_class]
#[php(name = "Lockwright\\Histogram", flags = ext_php_rs::flags::ClassFlags::Final)]
#[derive(Debug)]
pub struct Histogram {
    of: metrics::Histogram,
}

impl Histogram {
    pub(crate) fn new(of: metrics::Histogram) -> Self {
        Histogram { of }
    }
}

#[php_impl]
impl Histogram {
    /// How many times it has.
    pub fn count(&self) -> PhpResult<Zval> {
        of_token(self.of.count())
    }

    /// The sum of all, in seconds.
    pub fn sum(&self) -> f64 {
        self.of.sum().as_secs_f64()
    }

    /// The longest of all, in seconds.
    pub fn max(&self) -> f64 {
        self.of.max().as_secs_f64()
    }

    /// The time within which the fraction `q` (0 to 1) of all lies; 0 while there is none.
    pub fn quantile(&self, q: f64) -> PhpResult<f64> {
        Ok(report::quantile(&self.of, q).map_err(thrown)?.as_secs_f64())
    }

    /// How many are not longer than `bound`: what a cumulative bucket of Prometheus counts.
    pub fn at_most(&self, bound: &Zval) -> PhpResult<Zval> {
        of_token(self.of.at_most(span("metrics", "bound", bound)?))
    }
}

/// How to have a token checked by what a lock protects.
#[php_class]
#[php(name = "Lockwright\\Kit", flags = ext_php_rs::flags::ClassFlags::Final)]
#[derive(Debug)]
pub struct Kit;

#[php_impl]
impl Kit {
    /// The name of the header that a token travels in.
    pub const HEADER: &'static str = kit::HEADER;
    /// A script for Redis that sets a key unless a higher token did.
    pub const SET_SCRIPT: &'static str = kit::SET_SCRIPT;

    /// A condition for the `WHERE` of an `UPDATE` that sets `column` to the token: rows that a higher token wrote stay
    /// as they are. That it changed no row means that the token is stale, or the row is not there. Throws
    /// `InvalidConfig` for a column or a placeholder that is empty, has more than 1024 bytes or a control character.
    pub fn sql_condition(column: &Zval, placeholder: Option<&Zval>) -> PhpResult<String> {
        let placeholder = is_there(placeholder).map(|given| text("kit", "placeholder", given)).transpose()?;
        kit::sql_condition(&text("kit", "column", column)?, placeholder.as_deref().unwrap_or("?")).map_err(thrown)
    }

    /// The keys below `key`, a lock's name with the address's prefix before it, in a store of keys and revisions: from
    /// the first to before the second. A transaction that compares the creation revisions of this range with the token
    /// to be *not equal* finds them so once the lock is lost; what is to be written only while it is held stands in its
    /// `else`. Throws `InvalidConfig` for what is no lock's key: empty, above 1536 bytes, or with a control character.
    pub fn key_range(key: &Zval) -> PhpResult<Vec<String>> {
        kit::key_range(&text("kit", "key", key)?).map(Into::into).map_err(thrown)
    }

    /// The number by which PostgreSQL knows the advisory lock of `key`, a lock's name with the address's prefix before
    /// it. A transaction that takes it itself, by `pg_advisory_xact_lock`, and the holders of that lock in layout
    /// `advisory` exclude one another. Throws `InvalidConfig` as `keyRange` does.
    pub fn advisory_key(key: &Zval) -> PhpResult<i64> {
        kit::advisory_key(&text("kit", "key", key)?).map_err(thrown)
    }

    /// The value of the header.
    pub fn header_value(token: &Zval, epoch: Option<&Zval>) -> PhpResult<String> {
        let epoch = is_there(epoch).map(|epoch| self::token("kit", "epoch", epoch)).transpose()?.unwrap_or_default();
        Ok(kit::header_value(Token { epoch, n: self::token("kit", "token", token)? }))
    }

    /// Epoch and token of a header; null for what is none. What comes without one is to be refused as well.
    pub fn read_header(value: &Zval) -> PhpResult<Option<Zval>> {
        let Some(Token { epoch, n }) = kit::read_header(&text("kit", "value", value)?) else { return Ok(None) };
        let mut both = ZendHashTable::new();
        both.push(of_token(epoch)?)?;
        both.push(of_token(n)?)?;
        Ok(Some(both.into_zval(false)?))
    }

    /// Every name that this extension must have, and the class of each error: for its own test.
    pub fn manifest() -> PhpResult<Zval> {
        let mut both = ZendHashTable::new();
        both.insert("core", record(manifest::manifest())?)?;
        let mut classes = ZendHashTable::new();
        for (code, class) in errors() {
            classes.insert(code, class)?;
        }
        both.insert("exceptions", classes.into_zval(false)?)?;
        Ok(both.into_zval(false)?)
    }
}
