//! Gives the shared library its soname: programs linked with it ask for `libhanare.so.0`, whatever the file is called.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libhanare.so.0");
}
