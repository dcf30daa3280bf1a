//! All classes of the library: above the families, which know nothing of it.

use crate::class::Class;

/// All classes of packet programs, family by family.
pub fn classes() -> impl Iterator<Item = &'static Class> {
    [
        crate::basic::CLASSES,
        crate::classify::CLASSES,
        crate::ethernet::CLASSES,
        crate::ip::CLASSES,
        crate::ip6::CLASSES,
        crate::nat::CLASSES,
        crate::timestamps::CLASSES,
        crate::shaping::CLASSES,
        crate::tunnel::CLASSES,
        crate::wifi::CLASSES,
    ]
    .into_iter()
    .flatten()
}

/// The class of that name.
pub fn class_named(name: &str) -> Option<&'static Class> {
    classes().find(|c| c.info.name == name)
}
