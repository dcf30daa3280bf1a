//! Element classes: from a name and arguments to a configured element.

use weir_ir::{ClassInfo, Element};

use crate::args::Args;

/// The trait that the `element!` macro implements.
pub trait Configure: Element + Sized + 'static {
    /// The manual page.
    const INFO: &'static ClassInfo;
    /// Takes its parameters; `None` if `args` has errors now.
    fn configure(args: &mut Args) -> Option<Self>;
}

/// An element class.
#[derive(Debug, Clone, Copy)]
pub struct Class {
    /// The manual page.
    pub info: &'static ClassInfo,
    /// The family it belongs to.
    pub family: &'static str,
    configure: fn(&[String]) -> Configured,
}

/// A configured element, or what is wrong with its arguments.
pub type Configured = Result<Box<dyn Element>, Vec<String>>;

impl Class {
    /// An element with these arguments, or what is wrong with them.
    pub fn configure(&self, args: &[String]) -> Configured {
        (self.configure)(args)
    }
}

/// The class of a type.
pub const fn class<T: Configure>(family: &'static str) -> Class {
    Class {
        info: T::INFO,
        family,
        configure: |args| {
            let mut args = Args::new(args, T::INFO);
            let element = T::configure(&mut args);
            let errors = args.finish();
            match element {
                Some(e) if errors.is_empty() => Ok(Box::new(e)),
                _ => Err(errors),
            }
        },
    }
}
