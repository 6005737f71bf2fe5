//! Linker arguments of the library.

fn main() {
    // A class loader that is collected unloads its libraries, and the driver's thread would go on in unmapped code.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
