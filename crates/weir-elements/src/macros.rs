//! The `element!` macro: everything about an element but its program.

/// Declares an element class: manual page, ports, parameters and handlers. The file adds
/// `fn program(e: &Name, b: &mut Builder)`.
///
/// Parameters are `pos` (by position or keyword), `key` (by keyword only) or `rest` (all further arguments); without
/// a default they have to be given; `= default => "text"` is how the manual shows a default that is no plain literal.
/// Their keyword is the field's name in capitals. `check` says what is wrong with them together. Handlers are `read` and `write`
/// with a function, `query` (reads, with the parameter `State::param`), `cell` (reads and writes the cell of that name)
/// or `count` (reads it). `each` and `set_each` are `read` and `write` handlers with a number behind the name, which
/// the function gets as well (`active0`, `active1`).
#[macro_export]
macro_rules! element {
    (
        $(#[doc = $doc:expr])*
        $name:ident: $ports:literal, $processing:literal $(, flow $flow:literal)?;
        $(example $example:expr;)*
        $(params {
            $( $(#[doc = $pdoc:expr])* $kind:ident $field:ident: $ty:ty $(= $default:expr $(=> $shown:literal)?)?, )*
        })?
        $(check $check:expr;)?
        $(handlers {
            $( $(#[doc = $hdoc:expr])* $hkind:ident $hname:ident $(: $hty:ty)? $(= $hfn:expr)?, )*
        })?
        $(ports $port_fn:expr;)?
        $(describe $describe:expr;)?
        $(resolve $resolve:expr;)?
        $(adopted $adopted:expr;)?
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug)]
        #[allow(dead_code, reason = "some parameters are only accepted, for configurations written for Click")]
        #[allow(clippy::struct_excessive_bools, reason = "the fields are the parameters of the manual")]
        pub struct $name {
            $($( $(#[doc = $pdoc])* pub $field: $ty, )*)?
        }

        static INFO: $crate::private::ClassInfo = $crate::private::ClassInfo {
            name: stringify!($name),
            doc: concat!($($doc, "\n"),*),
            ports: $ports,
            processing: $processing,
            flow: $crate::element!(@or $($flow)?, "x/x"),
            params: &[$($($crate::private::ParamInfo {
                name: stringify!($field),
                kind: $crate::element!(@kind $kind),
                default: $crate::element!(@default $($default $(, $shown)?)?),
                syntax: <$ty as $crate::FromRest>::SYNTAX,
                doc: concat!($($pdoc),*),
            },)*)?],
            handlers: &[$($($crate::private::HandlerInfo {
                name: $crate::element!(@hname $hkind $hname),
                read: $crate::element!(@reads $hkind),
                write: $crate::element!(@writes $hkind),
                doc: concat!($($hdoc),*),
            },)*)?],
            examples: &[$($example),*],
        };

        impl $crate::Configure for $name {
            const INFO: &'static $crate::private::ClassInfo = &INFO;

            #[allow(unused_variables, reason = "an element may have no parameters")]
            fn configure(args: &mut $crate::Args) -> Option<Self> {
                $($( let $field = $crate::element!(@arg args $kind $field $ty $(, $default)?); )*)?
                let element = $name { $($( $field: $field?, )*)? };
                $(let f: fn(&$name) -> Result<(), String> = $check;
                args.check(f(&element))?;)?
                Some(element)
            }
        }

        #[allow(unused_variables, reason = "an element may have no handlers")]
        impl $crate::private::Element for $name {
            fn info(&self) -> &'static $crate::private::ClassInfo {
                &INFO
            }

            fn build(&self, b: &mut $crate::private::Builder) {
                program(self, b);
            }

            $(fn ports(&self) -> String {
                let f: fn(&$name) -> String = $port_fn;
                f(self)
            })?

            fn read(&self, handler: &str, state: &$crate::private::State<'_>) -> Result<String, String> {
                $($( $crate::element!(@read self, handler, state, $hkind $hname $(: $hty)? $(= $hfn)?); )*)?
                Err(format!("no read handler '{handler}'"))
            }

            fn write(
                &self,
                handler: &str,
                value: &str,
                state: &mut $crate::private::State<'_>,
            ) -> Result<(), String> {
                $($( $crate::element!(@write self, handler, value, state, $hkind $hname $(: $hty)? $(= $hfn)?); )*)?
                Err(format!("no write handler '{handler}'"))
            }

            $(fn describe(
                &self,
                event: &str,
                args: &[u128],
                packet: Option<&$crate::private::Packet>,
            ) -> Option<String> {
                let f: fn(&$name, &str, &[u128], Option<&$crate::private::Packet>) -> Option<String> = $describe;
                f(self, event, args, packet)
            })?

            $(fn resolve(&mut self, peers: &$crate::private::Peers<'_>) -> Result<(), Vec<String>> {
                let f: fn(&mut $name, &$crate::private::Peers<'_>) -> Result<(), Vec<String>> = $resolve;
                f(self, peers)
            })?

            $(fn adopted(&self, state: &mut $crate::private::State<'_>) {
                let f: fn(&$name, &mut $crate::private::State<'_>) = $adopted;
                f(self, state);
            })?
        }
    };

    (@or $a:expr, $b:expr) => { $a };
    (@or , $b:expr) => { $b };
    (@hname each $name:ident) => { concat!(stringify!($name), "N") };
    (@hname set_each $name:ident) => { concat!(stringify!($name), "N") };
    (@hname $hkind:ident $name:ident) => { stringify!($name) };
    (@kind pos) => { $crate::private::ParamKind::Positional };
    (@kind key) => { $crate::private::ParamKind::Keyword };
    (@kind rest) => { $crate::private::ParamKind::Rest };
    (@default $default:expr) => { Some(stringify!($default)) };
    (@default $default:expr, $shown:literal) => { Some($shown) };
    (@default) => { None };
    (@arg $args:ident $kind:ident $field:ident $ty:ty) => {
        $args.take::<$ty>(stringify!($field), $crate::element!(@kind $kind), None)
    };
    (@arg $args:ident $kind:ident $field:ident $ty:ty, $default:expr) => {
        $args.take::<$ty>(stringify!($field), $crate::element!(@kind $kind), Some($default))
    };
    (@reads read) => { true };
    (@reads query) => { true };
    (@reads cell) => { true };
    (@reads count) => { true };
    (@reads write) => { false };
    (@reads each) => { true };
    (@reads set_each) => { false };
    (@writes write) => { true };
    (@writes cell) => { true };
    (@writes set_each) => { true };
    (@writes $other:ident) => { false };
    (@read $e:ident, $h:ident, $s:ident, read $name:ident = $f:expr) => {
        if $h == stringify!($name) {
            let f: fn(&Self, &$crate::private::State<'_>) -> Result<String, String> = $f;
            return f($e, $s);
        }
    };
    (@read $e:ident, $h:ident, $s:ident, query $name:ident = $f:expr) => {
        $crate::element!(@read $e, $h, $s, read $name = $f);
    };
    (@read $e:ident, $h:ident, $s:ident, cell $name:ident: $ty:ty) => {
        if $h == stringify!($name) {
            return Ok(<$ty as $crate::CellValue>::show($s.cell(stringify!($name))));
        }
    };
    (@read $e:ident, $h:ident, $s:ident, count $name:ident) => {
        if $h == stringify!($name) {
            return Ok($s.cell(stringify!($name)).to_string());
        }
    };
    (@read $e:ident, $h:ident, $s:ident, each $name:ident = $f:expr) => {
        if let Some(i) = $crate::private::numbered($h, stringify!($name)) {
            let f: fn(&Self, &$crate::private::State<'_>, u32) -> Result<String, String> = $f;
            return f($e, $s, i);
        }
    };
    (@read $e:ident, $h:ident, $s:ident, write $name:ident = $f:expr) => {};
    (@read $e:ident, $h:ident, $s:ident, set_each $name:ident = $f:expr) => {};
    (@write $e:ident, $h:ident, $v:ident, $s:ident, write $name:ident = $f:expr) => {
        if $h == stringify!($name) {
            let f: fn(&Self, &mut $crate::private::State<'_>, &str) -> Result<(), String> = $f;
            return f($e, $s, $v);
        }
    };
    (@write $e:ident, $h:ident, $v:ident, $s:ident, set_each $name:ident = $f:expr) => {
        if let Some(i) = $crate::private::numbered($h, stringify!($name)) {
            let f: fn(&Self, &mut $crate::private::State<'_>, u32, &str) -> Result<(), String> = $f;
            return f($e, $s, i, $v);
        }
    };
    (@write $e:ident, $h:ident, $v:ident, $s:ident, cell $name:ident: $ty:ty) => {
        if $h == stringify!($name) {
            let value = <$ty as $crate::FromArg>::from_arg($v.trim())?;
            $s.set_cell(stringify!($name), <$ty as $crate::CellValue>::bits(value));
            return Ok(());
        }
    };
    (@write $e:ident, $h:ident, $v:ident, $s:ident, $other:ident $name:ident $(= $f:expr)?) => {};
}
