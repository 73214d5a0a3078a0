//! Gives the library its soname, as tools that look at installed libraries ask.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libhanare_main_memory.so");
}
