//! The classes that the core's own lists name: an exception for each kind of error, and a class for each record. They
//! are declared when PHP starts, as any extension's are, and nothing else is done then.

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::ptr;

use ext_php_rs::builders::{ClassBuilder, ClassProperty};
use ext_php_rs::convert::IntoZval;
use ext_php_rs::ffi::{zend_declare_property, zend_register_internal_class_ex};
use ext_php_rs::flags::{ClassFlags, PropertyFlags};
use ext_php_rs::types::{ZendObject, ZendStr, Zval};
use ext_php_rs::zend::{ClassEntry, ce};
use lockwright::Kind;
use lockwright::binding::record::samples;

use crate::told;
use crate::value::PHP;

unsafe extern "C" {
    /// As `zend_API.h` has it: in the name of a class, so that what is protected can be set, too.
    fn zend_update_property(
        scope: *mut ClassEntry,
        object: *mut ZendObject,
        name: *const c_char,
        length: usize,
        value: *mut Zval,
    );

    /// The same for reading; what it returns is the object's own, or lies in `place`.
    fn zend_read_property(
        scope: *const ClassEntry,
        object: *const ZendObject,
        name: *const c_char,
        length: usize,
        silent: bool,
        place: *mut Zval,
    ) -> *const Zval;
}

/// What is made while PHP starts, by its one thread, and only read afterwards.
struct AtStart(UnsafeCell<Vec<(&'static str, &'static ClassEntry)>>);

// SAFETY: see above.
unsafe impl Sync for AtStart {}

static CLASSES: AtStart = AtStart(UnsafeCell::new(Vec::new()));

/// The class of every error of this library.
const BASE: &str = "LockException";

/// What each kind of error is called.
const fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Timeout => "LockTimeout",
        Kind::NotOwned => "NotOwned",
        Kind::Lost => "LockLost",
        Kind::Cancelled => "Cancelled",
        Kind::Unavailable => "Unavailable",
        Kind::Quorum => "QuorumFailed",
        Kind::InvalidConfig => "InvalidConfig",
        Kind::Unsupported => "Unsupported",
        Kind::ForeignLayout => "ForeignLayout",
        Kind::Deadlock => "Deadlock",
        Kind::Forked => "Forked",
        Kind::Closed => "Closed",
        Kind::Auth => "AuthFailed",
        Kind::Protocol => "ProtocolError",
        _ => "InternalError",
    }
}

/// PHP's MINIT.
pub(crate) fn register(_kind: i32, _module: i32) -> i32 {
    told::register();
    let base = declare(BASE, Some(ce::exception()), ["operation", "lock", "store", "retryable"].into_iter());
    for kind in Kind::ALL {
        declare(name(kind), Some(base), std::iter::empty());
    }
    for record in samples() {
        let class = declare(record.class, None, record.fields.iter().map(|(field, _)| *field));
        let _ = class;
    }
    0
}

fn declare(
    name: &'static str,
    parent: Option<&'static ClassEntry>,
    properties: impl Iterator<Item = &'static str>,
) -> &'static ClassEntry {
    // SAFETY: a class entry of zeros is one that nothing was said of yet; PHP copies it, and keeps the copy and its
    // name for as long as it runs. Nobody else uses the list while PHP starts.
    unsafe {
        let mut class: ClassEntry = MaybeUninit::zeroed().assume_init();
        class.name = ZendStr::new_interned(format!("Lockwright\\{name}"), true).into_raw();
        let parent = parent.map_or(ptr::null_mut(), |parent| ptr::from_ref(parent).cast_mut());
        let class = zend_register_internal_class_ex(&raw mut class, parent);
        if parent.is_null() {
            (*class).ce_flags |= ClassFlags::Final.bits();
        }
        for property in properties {
            let property = PHP.spell(property);
            let mut empty = Zval::null();
            let public = PropertyFlags::Public.bits() as c_int;
            zend_declare_property(class, property.as_ptr().cast(), property.len(), &raw mut empty, public);
        }
        (*CLASSES.0.get()).push((name, &*class));
        &*class
    }
}

/// The class of that name, if it is of these.
pub(crate) fn named(name: &str) -> Option<&'static ClassEntry> {
    // SAFETY: PHP has started, so that the list is only read.
    let classes = unsafe { &*CLASSES.0.get() };
    classes.iter().find(|(other, _)| *other == name).map(|(_, class)| *class)
}

/// That of an error.
pub(crate) fn of_error(kind: Kind) -> Option<&'static ClassEntry> {
    named(name(kind))
}

/// Every code with the class of its exception.
pub(crate) fn errors() -> impl Iterator<Item = (&'static str, String)> {
    Kind::ALL.into_iter().map(|kind| (kind.code(), format!("Lockwright\\{}", name(kind))))
}

/// A class with a property that it alone has to do with. What lies there is seen by PHP's collector of cycles, which
/// does not see what lies in Rust.
pub(crate) fn keeping(class: ClassBuilder, name: &str) -> ClassBuilder {
    class.property(ClassProperty {
        name: name.into(),
        flags: PropertyFlags::Private,
        default: Some(Box::new(|| Ok(Zval::null()))),
        docs: &[],
        ty: None,
        nullable: true,
        readonly: false,
        default_stub: None,
    })
}

/// Sets a property that its class declares, and others may not set.
pub(crate) fn set(of: &mut ZendObject, property: &str, value: impl IntoZval) {
    let scope = ptr::from_ref(of.get_class_entry()).cast_mut();
    if let Ok(mut value) = value.into_zval(false) {
        // SAFETY: object, class and value are PHP's and live; it takes a reference of its own to the value.
        unsafe { zend_update_property(scope, of, property.as_ptr().cast(), property.len(), &raw mut value) }
    }
}

/// A property that its class alone may read; `place` is for what is no property of the object's own.
pub(crate) fn get<'a>(of: &'a ZendObject, scope: &ClassEntry, property: &str, place: &'a mut Zval) -> Option<&'a Zval> {
    // SAFETY: object and class are PHP's and live, and so is what it returns as long as nothing else is done.
    unsafe { zend_read_property(scope, of, property.as_ptr().cast(), property.len(), true, place).as_ref() }
}

/// The message of something thrown.
pub(crate) fn message(of: &ZendObject) -> String {
    let scope = if of.instance_of(ce::exception()) { ce::exception() } else { ce::error() };
    get(of, scope, "message", &mut Zval::null()).and_then(Zval::string).unwrap_or_default()
}
