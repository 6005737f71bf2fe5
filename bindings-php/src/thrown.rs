//! Errors of the core as exceptions of PHP.

use ext_php_rs::convert::IntoZval;
use ext_php_rs::exception::PhpException;
use ext_php_rs::types::ZendObject;
use ext_php_rs::zend::{ClassEntry, ExecutorGlobals, ce};
use lockwright::Error;

use crate::classes;
use crate::login;

/// The exception of the class for its code.
pub(crate) fn thrown(error: Error) -> PhpException {
    login::go_on();
    let message = error.to_string();
    let Some(class) = classes::of_error(error.kind()) else { return PhpException::from_message(message) };
    let mut exception = ZendObject::new(class);
    classes::set(&mut exception, "message", message.as_str());
    classes::set(&mut exception, "code", error.code());
    classes::set(&mut exception, "operation", error.operation());
    classes::set(&mut exception, "lock", error.lock());
    classes::set(&mut exception, "store", error.store());
    classes::set(&mut exception, "retryable", error.retryable());
    match exception.into_zval(false) {
        Ok(object) => PhpException::new(message, 0, class).with_object(object),
        Err(_) => PhpException::new(message, 0, class),
    }
}

unsafe extern "C" {
    /// As `zend_exceptions.h` has it. It also puts right where the program goes on, which whoever is called between two
    /// of its steps has to.
    fn zend_clear_exception();

    /// Whether it is what PHP has on its way for `exit`.
    fn zend_is_unwind_exit(exception: *const ZendObject) -> bool;

    /// Whether it is what PHP has on its way through a fiber that nobody goes on with.
    fn zend_is_graceful_exit(exception: *const ZendObject) -> bool;
}

/// Whether something of that class is on its way.
pub(crate) fn is_on_its_way(class: &ClassEntry) -> bool {
    ExecutorGlobals::get().exception().is_some_and(|exception| exception.instance_of(class))
}

/// Whether the program, or the fiber, is ending.
pub(crate) fn is_ending() -> bool {
    // SAFETY: PHP's thread, and an object of PHP's that lives.
    let ends = |exception: &ZendObject| unsafe { zend_is_unwind_exit(exception) || zend_is_graceful_exit(exception) };
    ExecutorGlobals::get().exception().is_some_and(ends)
}

/// The class and the message of what a function of the program's threw, which goes no further; but `exit` does.
pub(crate) fn caught() -> Option<String> {
    if is_ending() {
        return None;
    }
    let globals = ExecutorGlobals::get();
    let said = globals.exception().map(|exception| {
        let class = exception.get_class_name().unwrap_or_default();
        format!("{class}: {}", classes::message(exception))
    });
    drop(globals);
    // SAFETY: PHP's thread, with nothing borrowed of the exception.
    unsafe { zend_clear_exception() }
    said
}

/// An argument that is not of the type that its method takes.
pub(crate) fn type_error(message: String) -> PhpException {
    PhpException::new(message, 0, ce::type_error())
}
