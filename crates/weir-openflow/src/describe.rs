//! The language in which messages are described. A description says each field once, with its type; how it is read,
//! written, named, printed and made up for tests follows from it.
//!
//! - `numbers!`: numbers with names for some values (ports, groups, tables)
//! - `codes!`: one of a list
//! - `flags!`: a set of bits
//! - `record!`: fields in a row; `pad N` is padding, `sized AT` says where in it its own length stands
//! - `choice!`: one of several bodies, distinguished by a number outside
//! - `tlv!`: a choice behind a header of its type and length

/// A number of which some values have names.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $int:ty { $($(#[$vdoc:meta])* $value:ident = $n:literal $text:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub $int);

        impl $name {
            $($(#[$vdoc])* pub const $value: $name = $name($n);)*
        }

        impl $crate::wire::Wire for $name {
            fn read(r: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::DecodeError> {
                <$int>::read(r).map($name)
            }
            fn write(&self, w: &mut Vec<u8>) {
                self.0.write(w);
            }
            fn any(c: &mut $crate::choices::Choices<'_>) -> Self {
                let named: &[$int] = &[$($n),*];
                if !named.is_empty() && c.below(4) == 0 { $name(c.pick(named)) } else { $name(<$int>::any(c)) }
            }
            fn text(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{self}")
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match *self {
                    $($name::$value => f.write_str($text),)*
                    $name(n) => write!(f, "{n}"),
                }
            }
        }
    )*};
}

/// One of a list, with the error that another value is.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident: $int:ty, $module:ident::$error:ident {
        $($(#[$vdoc:meta])* $variant:ident = $n:literal $text:literal,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant = $n,)* }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant),*];
        }

        impl $crate::wire::Wire for $name {
            fn read(r: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::DecodeError> {
                let start = r.clone();
                match <$int>::read(r)? {
                    $($n => Ok($name::$variant),)*
                    n => {
                        let right = [$($n),*].map(|n: $int| n.to_string()).join(", ");
                        Err(start.error($crate::error::$module::$error, format!("{n} is none of {right}")))
                    }
                }
            }
            fn write(&self, w: &mut Vec<u8>) {
                (*self as $int).write(w);
            }
            fn any(c: &mut $crate::choices::Choices<'_>) -> Self {
                c.pick($name::ALL)
            }
            fn text(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{self}")
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $($name::$variant => $text,)* })
            }
        }
    )*};
}

/// A set of bits, some of which have names. With `only`, other bits are an error.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident: $int:ty $(, only $module:ident::$error:ident)? {
        $($(#[$vdoc:meta])* $flag:ident = $bit:literal $text:literal,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(pub $int);

        impl $name {
            $($(#[$vdoc])* pub const $flag: $name = $name(1 << $bit);)*
            /// All bits with a name.
            pub const ALL: $name = $name(0 $(| 1 << $bit)*);

            /// Whether all of these are set.
            pub fn has(self, flags: $name) -> bool {
                self.0 & flags.0 == flags.0
            }

            /// Without these.
            #[must_use]
            pub fn without(self, flags: $name) -> $name {
                $name(self.0 & !flags.0)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = $name;
            fn bitor(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }
        }

        impl $crate::wire::Wire for $name {
            fn read(r: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::DecodeError> {
                let _start = r.clone();
                let flags = <$int>::read(r).map($name)?;
                $(if flags.0 & !$name::ALL.0 != 0 {
                    let what = format!("flags {:#x}, of which {:#x} have a meaning", flags.0, $name::ALL.0);
                    return Err(_start.error($crate::error::$module::$error, what));
                })?
                Ok(flags)
            }
            fn write(&self, w: &mut Vec<u8>) {
                self.0.write(w);
            }
            fn any(c: &mut $crate::choices::Choices<'_>) -> Self {
                $name(<$int>::any(c) & $name::ALL.0)
            }
            fn text(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{self}")
            }
        }

        impl std::fmt::Display for $name {
            /// The names of its bits, and what is left as a number; `0` if there are none.
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let named: &[($name, &str)] = &[$(($name::$flag, $text)),*];
                let mut words: Vec<String> =
                    named.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, text)| (*text).to_owned()).collect();
                let rest = self.without($name::ALL).0;
                if rest != 0 || words.is_empty() {
                    words.push(if rest == 0 { "0".to_owned() } else { format!("{rest:#x}") });
                }
                f.write_str(&words.join(" "))
            }
        }
    )*};
}

/// Fields in a row. `text = F` prints it with a function of its own.
macro_rules! record {
    ($(#[$doc:meta])* $(sized $length:literal)? $(text $text:path)? => pub struct $name:ident {
        $(@pad $lead:literal;)?
        $($(#[$fdoc:meta])* $field:ident: $ty:ty $(, pad $pad:literal)?;)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $($(#[$fdoc])* pub $field: $ty,)* }

        impl $crate::wire::Wire for $name {
            $(const LENGTH_AT: Option<usize> = Some($length);)?

            fn read(r: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::DecodeError> {
                $(r.skip($lead)?;)?
                $(
                    let $field = <$ty as $crate::wire::Wire>::read(r).map_err(|e| e.within(stringify!($field)))?;
                    $(r.skip($pad)?;)?
                )*
                Ok($name { $($field),* })
            }
            fn write(&self, w: &mut Vec<u8>) {
                $(w.extend([0; $lead]);)?
                $(
                    self.$field.write(w);
                    $(w.extend([0; $pad]);)?
                )*
            }
            fn any(c: &mut $crate::choices::Choices<'_>) -> Self {
                let _ = &c;
                $name { $($field: <$ty as $crate::wire::Wire>::any(c)),* }
            }
            fn text(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                record_text!(self, f, [$($field)*] $($text)?)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::wire::Wire::text(self, f)
            }
        }
    };
}

/// The text of a record: by its function, or field by field.
macro_rules! record_text {
    ($self:ident, $f:ident, [$($field:ident)*] $text:path) => { $text($self, $f) };
    ($self:ident, $f:ident, [$($field:ident)*]) => {{
        let _ = &$f;
        let mut _between = "";
        $(
            write!($f, "{_between}{}=", stringify!($field))?;
            $self.$field.text($f)?;
            _between = ",";
        )*
        Ok(())
    }};
}

/// One of several bodies; which one, a number says that stands elsewhere.
macro_rules! choice {
    ($(#[$doc:meta])* pub enum $name:ident: $int:ty {
        $($(#[$vdoc:meta])* $n:literal $text:literal $variant:ident $(($ty:ty))?,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant $(($ty))?,)* }

        impl $name {
            /// The numbers of the kinds, with their names.
            pub const KINDS: &[($int, &str)] = &[$(($n, $text)),*];

            /// The number of its kind.
            pub fn kind(&self) -> $int {
                match self { $($name::$variant $((ignore!(_, $ty)))? => $n,)* }
            }

            /// The name of its kind.
            pub fn name(&self) -> &'static str {
                match self { $($name::$variant $((ignore!(_, $ty)))? => $text,)* }
            }

            /// Reads the body of a kind; `None` if there is no such kind.
            pub(crate) fn read_body(
                kind: $int,
                r: &mut $crate::wire::Reader<'_>,
            ) -> Result<Option<Self>, $crate::DecodeError> {
                let _ = &r;
                match kind {
                    $($n => Ok(Some($name::$variant $((<$ty as $crate::wire::Wire>::read(r)?))?)),)*
                    _ => Ok(None),
                }
            }

            pub(crate) fn write_body(&self, w: &mut Vec<u8>) {
                let _ = &w;
                match self {
                    $($name::$variant $((ignore!(body, $ty)))? => { $(<$ty as $crate::wire::Wire>::write(body, w))? })*
                }
            }

            /// A value that choices lead to: for tests and fuzzers.
            pub fn any(c: &mut $crate::choices::Choices<'_>) -> Self {
                match c.pick(&[$($n),*]) {
                    $($n => $name::$variant $((<$ty as $crate::wire::Wire>::any(c)))?,)*
                    _ => unreachable!("it is one of the list"),
                }
            }

            /// The text of the body, nothing if it has none.
            // Those with a text of their own do not need it.
            #[allow(dead_code)]
            pub(crate) fn body_text(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let _ = &f;
                match self {
                    $($name::$variant $((ignore!(body, $ty)))? => {
                        $(return <$ty as $crate::wire::Wire>::text(body, f);)?
                        #[allow(unreachable_code)]
                        Ok(())
                    })*
                }
            }
        }
    };
}

/// A pattern or name that stands once for each type.
macro_rules! ignore {
    (_, $ty:ty) => {
        _
    };
    ($name:ident, $ty:ty) => {
        $name
    };
}

/// How a choice behind its type and length is read and written. `inside`: the length counts the padding to eight bytes, as of
/// actions; `outside`: it does not, as of hello elements; `none`: there is no padding.
macro_rules! tlv {
    ($name:ident, $padding:ident, type $tm:ident::$te:ident, length $lm:ident::$le:ident $(, text $text:path)?) => {
        impl $crate::wire::Wire for $name {
            fn read(r: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::DecodeError> {
                let header = r.clone();
                let kind = r.u16()?;
                let length = usize::from(r.u16()?);
                let bad_length = $crate::error::$lm::$le;
                let Some(body) = length.checked_sub(4) else {
                    return Err(header.error(bad_length, format!("it says {length} bytes long, 4 are its header")));
                };
                let mut body = r.part(body, bad_length)?;
                let unknown = || {
                    let known = $name::KINDS.iter().map(|(n, _)| n.to_string()).collect::<Vec<_>>().join(", ");
                    header.error($crate::error::$tm::$te, format!("type {kind} is none of {known}"))
                };
                let value = $name::read_body(kind, &mut body)?.ok_or_else(unknown)?;
                let used = length - body.left();
                let (inside, outside) = padding!($padding, used);
                body.skip(inside)?;
                body.finish()?;
                r.skip(outside)?;
                Ok(value)
            }
            fn write(&self, w: &mut Vec<u8>) {
                let start = w.len();
                w.extend(self.kind().to_be_bytes());
                w.extend([0; 2]);
                self.write_body(w);
                let (inside, outside) = padding!($padding, w.len() - start);
                w.extend(std::iter::repeat_n(0, inside));
                $crate::wire::set_length(w, start, start + 2);
                w.extend(std::iter::repeat_n(0, outside));
            }
            fn any(c: &mut $crate::choices::Choices<'_>) -> Self {
                $name::any(c)
            }
            fn text(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                tlv_text!(self, f $(, $text)?)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::wire::Wire::text(self, f)
            }
        }
    };
}

/// The text of a choice behind a header: by its function, or its name and body.
macro_rules! tlv_text {
    ($self:ident, $f:ident, $text:path) => {
        $text($self, $f)
    };
    ($self:ident, $f:ident) => {{
        write!($f, "type={} ", $self.name())?;
        $self.body_text($f)
    }};
}

/// Bytes of padding inside and outside of the length.
macro_rules! padding {
    (inside, $used:expr) => {
        ($crate::describe::to_eight($used), 0)
    };
    (outside, $used:expr) => {
        (0, $crate::describe::to_eight($used))
    };
}

/// What is missing to a multiple of eight.
pub(crate) fn to_eight(n: usize) -> usize {
    n.wrapping_neg() % 8
}
