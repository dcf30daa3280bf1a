//! The macro that declares a class of engine nodes.

/// Declares a class of engine nodes: manual page, ports, model, reach, parameters and handlers, as `element!` does for
/// packet programs. `state` names the type of what a node has at run time, which starts as its default and is the
/// field `state`; a `read` handler is a function of the node and the environment, `write` gets the value as well;
/// `each` and `set_each` have a number behind the name, which the function gets (`tickets0`, `tickets1`).
/// The file adds `impl Behavior for Name`.
macro_rules! engine_node {
    (
        $(#[doc = $doc:expr])*
        $name:ident: $ports:literal, $processing:literal, $model:ident, $reach:ident;
        $(example $example:expr;)*
        $(params {
            $( $(#[doc = $pdoc:expr])* $kind:ident $field:ident: $ty:ty $(= $default:expr $(=> $shown:literal)?)?, )*
        })?
        $(check $check:expr;)?
        $(handlers {
            $( $(#[doc = $hdoc:expr])* $hkind:ident $hname:ident = $hfn:expr, )*
        })?
        $(state $state:ty;)?
    ) => {
        $(#[doc = $doc])*
        #[allow(dead_code, reason = "some parameters are only accepted, for configurations written for Click")]
        #[allow(clippy::upper_case_acronyms, reason = "the names of classes are Click's")]
        pub(crate) struct $name {
            $($( $(#[doc = $pdoc])* pub $field: $ty, )*)?
            $(state: $state,)?
        }

        static INFO: weir_ir::ClassInfo = weir_ir::ClassInfo {
            name: stringify!($name),
            doc: concat!($($doc, "\n"),*),
            ports: $ports,
            processing: $processing,
            flow: "x/x",
            params: &[$($(weir_ir::ParamInfo {
                name: stringify!($field),
                kind: engine_node!(@kind $kind),
                default: engine_node!(@default $($default $(, $shown)?)?),
                syntax: <$ty as weir_elements::FromRest>::SYNTAX,
                doc: concat!($($pdoc),*),
            },)*)?],
            handlers: &[$($(weir_ir::HandlerInfo {
                name: engine_node!(@hname $hkind $hname),
                read: engine_node!(@reads $hkind),
                write: !engine_node!(@reads $hkind),
                doc: concat!($($hdoc),*),
            },)*)?],
            examples: &[$($example),*],
        };

        pub(crate) const CLASS: $crate::node::NodeClass = $crate::node::NodeClass {
            info: &INFO,
            model: $crate::node::Model::$model,
            reach: $crate::node::Reach::$reach,
            configure: |args| {
                #[allow(unused_variables, reason = "a node may have no parameters")]
                let node = $crate::node::configure(args, &INFO, |args| {
                    $($( let $field = args.take::<$ty>(
                        stringify!($field), engine_node!(@kind $kind), engine_node!(@value $($default)?),
                    ); )*)?
                    let node = $name {
                        $($( $field: $field?, )*)?
                        $( state: <$state>::default(), )?
                    };
                    $(let f: fn(&$name) -> Result<(), String> = $check;
                    args.check(f(&node))?;)?
                    Some(node)
                })?;
                Ok(Box::new(node))
            },
        };

        #[allow(unused_variables, reason = "a node may have no handlers")]
        impl $crate::node::EngineNode for $name {
            fn read(&self, handler: &str, env: &$crate::env::Env) -> Result<String, String> {
                $($( engine_node!(@read self, handler, env, $hkind $hname = $hfn); )*)?
                Err(format!("no read handler '{handler}'"))
            }

            fn write(&mut self, handler: &str, value: &str, env: &mut $crate::env::Env) -> Result<(), String> {
                $($( engine_node!(@write self, handler, value, env, $hkind $hname = $hfn); )*)?
                Err(format!("no write handler '{handler}'"))
            }

            fn as_any(&mut self) -> &mut dyn std::any::Any {
                self
            }
        }
    };

    (@kind pos) => { weir_ir::ParamKind::Positional };
    (@kind key) => { weir_ir::ParamKind::Keyword };
    (@kind rest) => { weir_ir::ParamKind::Rest };
    (@hname each $name:ident) => { concat!(stringify!($name), "N") };
    (@hname set_each $name:ident) => { concat!(stringify!($name), "N") };
    (@hname $hkind:ident $name:ident) => { stringify!($name) };
    (@default $default:expr) => { Some(stringify!($default)) };
    (@default $default:expr, $shown:literal) => { Some($shown) };
    (@default) => { None };
    (@value $default:expr) => { Some($default) };
    (@value) => { None };
    (@reads read) => { true };
    (@reads each) => { true };
    (@reads write) => { false };
    (@reads set_each) => { false };
    (@read $node:ident, $h:ident, $env:ident, read $name:ident = $f:expr) => {
        if $h == stringify!($name) {
            let f: fn(&Self, &$crate::env::Env) -> Result<String, String> = $f;
            return f($node, $env);
        }
    };
    (@read $node:ident, $h:ident, $env:ident, each $name:ident = $f:expr) => {
        if let Some(i) = weir_elements::private::numbered($h, stringify!($name)) {
            let f: fn(&Self, u32) -> Result<String, String> = $f;
            return f($node, i);
        }
    };
    (@read $node:ident, $h:ident, $env:ident, $other:ident $name:ident = $f:expr) => {};
    (@write $node:ident, $h:ident, $v:ident, $env:ident, write $name:ident = $f:expr) => {
        if $h == stringify!($name) {
            let f: fn(&mut Self, &str, &mut $crate::env::Env) -> Result<(), String> = $f;
            return f($node, $v, $env);
        }
    };
    (@write $node:ident, $h:ident, $v:ident, $env:ident, set_each $name:ident = $f:expr) => {
        if let Some(i) = weir_elements::private::numbered($h, stringify!($name)) {
            let f: fn(&mut Self, u32, &str) -> Result<(), String> = $f;
            return f($node, i, $v);
        }
    };
    (@write $node:ident, $h:ident, $v:ident, $env:ident, $other:ident $name:ident = $f:expr) => {};
}
