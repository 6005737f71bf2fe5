//! Requests as bytes, as `Request` of the Java side writes them: numbers with their highest byte first, texts as UTF-8
//! behind their length.

use lockwright::binding::options::Choice;
use lockwright::binding::{Given, lost_track};
use lockwright::queue::OwnerId;
use lockwright::{Error, Result};

use crate::JAVA;

/// What is left to read of a request.
pub(crate) struct Request<'a>(&'a [u8]);

fn malformed() -> Error {
    lost_track("call")
}

impl<'a> Request<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Request(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        Ok(u8::from_be_bytes(self.take()?))
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        Ok(self.byte()? != 0)
    }

    /// A number that is no less than 0, which Java looks at; the core refuses the smallest and the largest.
    pub(crate) fn count(&mut self) -> Result<u32> {
        u32::try_from(i32::from_be_bytes(self.take()?)).map_err(|_| malformed())
    }

    /// The number of a job, which Java keeps as it was given it: of the upper half of them as one below 0.
    pub(crate) fn job(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    /// A number that Java keeps as it was given one.
    pub(crate) fn number(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.take()?))
    }

    pub(crate) fn fraction(&mut self) -> Result<f64> {
        Ok(f64::from_be_bytes(self.take()?))
    }

    pub(crate) fn word(&mut self) -> Result<&'a str> {
        let length = usize::try_from(self.count()?).map_err(|_| malformed())?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(malformed)?;
        self.0 = rest;
        str::from_utf8(taken).map_err(|_| malformed())
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        self.word().map(str::to_owned)
    }

    pub(crate) fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        self.flag()?.then(|| read(self)).transpose()
    }

    pub(crate) fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        (0..self.count()?).map(|_| read(self)).collect()
    }

    pub(crate) fn given(&mut self) -> Result<Given> {
        Ok(match self.byte()? {
            0 => Given::Number(self.fraction()?),
            1 => Given::Text(self.text()?),
            2 => Given::Flag(self.flag()?),
            3 => Given::Range(Box::new([self.optional(Self::given)?, self.optional(Self::given)?])),
            _ => return Err(malformed()),
        })
    }

    /// Who acquires; nobody who is known where the number is 0.
    pub(crate) fn owner(&mut self) -> Result<Option<OwnerId>> {
        Ok(Some(self.number()?).filter(|number| *number != 0).map(OwnerId))
    }

    /// Sets the options that follow, by name.
    pub(crate) fn options<T>(
        &mut self,
        choices: &'static [Choice<T>],
        options: &mut T,
        operation: &'static str,
    ) -> Result<()> {
        let given = self.list(|request| {
            let name = request.word()?;
            Ok((JAVA.position(choices, name).ok_or_else(malformed)?, request.given()?))
        })?;
        JAVA.set(choices, options, given, operation)
    }
}
