//! The IMS of `examples/vnf/ims`, in Rust.

#![forbid(unsafe_code)]

#[path = "examples/ims.rs"]
mod examples;
mod port;

#[test]
fn users_register_with_the_ims() {
    let this = std::env::current_exe().expect("this program has a path");
    let folder = this.parent().and_then(|deps| deps.parent()).expect("it is in a folder of a folder");
    examples::ims(&folder.join("examples/vnf-ims"));
}
