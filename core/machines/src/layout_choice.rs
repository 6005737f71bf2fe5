//! Which of a store's layouts a lock is kept in, and whether that one can do what is asked of it.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::gate::Gate;
use crate::guarantee::Guarantees;
use crate::options::AcquireOptions;
use crate::protocol::{Layout, irrevocable};
use crate::share::Share;

/// A layout as it is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct LayoutChoice<'a> {
    /// Its name; the default one where there is none.
    pub layout: Option<&'a str>,
    /// Its format.
    pub format: Option<&'a str>,
}

impl<'a> LayoutChoice<'a> {
    /// The one that a lock's options ask for.
    pub fn of(options: &'a AcquireOptions) -> Self {
        LayoutChoice { layout: options.layout.as_deref(), format: options.format.as_deref() }
    }
}

/// What a lock is of.
#[derive(Clone, Copy, Debug)]
pub enum Of {
    /// Itself.
    Lock,
    /// A read/write lock, for a reader.
    Read,
    /// The same, for the writer.
    Write,
    /// A semaphore.
    Permits {
        /// How many each acquisition takes.
        take: u32,
        /// How many there are.
        permits: u32,
    },
    /// Permits of what has none.
    Nothing,
    /// To be told when it is open.
    Gate(Gate),
}

impl Of {
    /// The layout of what is wanted, beside `layout` for locks.
    ///
    /// # Errors
    /// `unsupported` where there is none, `invalid_config` for permits out of range.
    pub fn layout(self, layout: Arc<dyn Layout>, options: &AcquireOptions) -> Result<Arc<dyn Layout>> {
        let share = match self {
            Of::Lock => return Ok(layout),
            Of::Read => Share::READ,
            Of::Write => Share::WRITE,
            Of::Permits { take, permits } => Share::permits(take, permits, options.fair)?,
            Of::Gate(gate) => return layout.gate(gate).ok_or_else(|| missing(&*layout, gate.name())),
            Of::Nothing => return Err(Error::invalid("lock", "only a semaphore has permits to take; leave take out")),
        };
        layout.shared(share).ok_or_else(|| missing(&*layout, share.primitive.name()))
    }
}

fn missing(layout: &dyn Layout, what: &str) -> Error {
    Error::unsupported("lock", format!("layout {} has no {what}; choose the store's own layout", layout.name()))
}

/// The one of a store's layouts that is wanted.
///
/// # Errors
/// `unsupported` for a layout or format that this store does not have, `invalid_config` for a format that is missing
/// or does not go with the layout.
pub fn layout_of(known: &[Arc<dyn Layout>], wanted: LayoutChoice<'_>) -> Result<Arc<dyn Layout>> {
    let name = wanted.layout.or(known.first().map(|layout| layout.name())).unwrap_or_default();
    let of_name = || known.iter().filter(|layout| layout.name() == name);
    if let Some(layout) = of_name().find(|layout| layout.format() == wanted.format) {
        return Ok(layout.clone());
    }
    if of_name().next().is_none() {
        let mut names: Vec<_> = known.iter().map(|layout| layout.name()).collect();
        names.dedup();
        let message = format!("there is no layout {name:?} here; there are: {}", names.join(", "));
        return Err(Error::unsupported("lock", message));
    }
    let formats: Vec<_> = of_name().filter_map(|layout| layout.format()).collect();
    let formats = formats.join(", ");
    Err(match wanted.format {
        Some(format) if !formats.is_empty() => {
            Error::unsupported("lock", format!("layout {name} has no format {format:?}; it has: {formats}"))
        }
        Some(_) => Error::invalid("lock", format!("layout {name} has no formats; leave the format out")),
        None => Error::invalid("lock", format!("layout {name} needs a format, one of: {formats}")),
    })
}

/// The layouts of the shared records, one of which may lie under a name where whoever asks speaks of a lock of
/// `layout`.
pub fn shared_beside(layout: &dyn Layout) -> Vec<Arc<dyn Layout>> {
    let shares = [Ok(Share::READ), Share::permits(1, 1, false)];
    shares.into_iter().flatten().filter_map(|share| layout.shared(share)).collect()
}

/// Whether `layout`, which promises what it `can`, honours these options.
///
/// # Errors
/// `unsupported` where it does not, and what the layout says of its own.
pub fn check(layout: &dyn Layout, can: &Guarantees, options: &AcquireOptions) -> Result<()> {
    layout.check(options)?;
    if options.rank > 0 && !layout.serves_by_rank() {
        let message = format!(
            "layout {} serves nobody by rank; leave the rank out, or choose the store's own layout",
            layout.name()
        );
        return Err(Error::unsupported("lock", message));
    }
    if options.revocable && !layout.is_revocable() {
        return Err(Error::unsupported("lock", irrevocable(layout.name())));
    }
    let wants = [(options.fair && !can.fair, "fair"), (options.reentrant && !can.reentrant, "reentrant")];
    match wants.iter().find(|(missing, _)| *missing) {
        None => Ok(()),
        Some((_, what)) => {
            let message =
                format!("layout {} cannot be {what} here; leave it out, or choose another layout", can.layout);
            Err(Error::unsupported("lock", message))
        }
    }
}
