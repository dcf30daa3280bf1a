//! The macro that declares a rewriter whose mappings take both directions of a flow.

/// Declares such a rewriter, as `element!` does, with what all of them have: the inputs, how many mappings there may be, the
/// annotation of replies, and the handlers of mappings and patterns. `params` and `handlers` are its own; `only` says which
/// patterns it takes, if not all.
macro_rules! rewriter {
    (
        $(#[doc = $doc:expr])*
        $name:ident;
        $(example $example:expr;)*
        params { $($params:tt)* }
        $(only $only:expr;)?
        handlers { $($handlers:tt)* }
    ) => {
        element! {
            $(#[doc = $doc])*
            $name: "1-/1-", "h/h";
            $(example $example;)*
            params {
                /// One for each input.
                rest inputs: $crate::nat::pattern::InputSpecs,
                $($params)*
                /// Kept for Click configurations: mappings are removed when their time has come.
                key reap_interval: Duration = Duration::from_secs(900) => "15 min",
                /// Most mappings: a number, or the name of another rewriter, to have no more than that with it together.
                key mapping_capacity: $crate::nat::params::Capacity = $crate::nat::params::Capacity::DEFAULT => "1048576",
                /// Another name of MAPPING_CAPACITY.
                key capacity: Option<$crate::nat::params::Capacity> = None,
                /// Annotation byte (`PAINT`, or its offset) that replies get from the first packet of their mapping.
                key reply_anno: Option<$crate::nat::params::Anno> = None,
            }
            $(check |e| e.inputs.check($only);)?
            handlers {
                /// Number of mappings.
                read nmappings = |_, s| Ok($crate::nat::listing::mappings(s).to_string()),
                /// Number of mappings.
                read table_size = |_, s| Ok($crate::nat::listing::mappings(s).to_string()),
                /// Number of mappings.
                read size = |_, s| Ok($crate::nat::listing::mappings(s).to_string()),
                /// Number of packets that got no mapping because no address, no port or no place was free.
                count mapping_failures,
                /// Most mappings. When it is lowered, those that expire next go.
                count capacity,
                write capacity = |_, s, v| $crate::nat::listing::set_capacity(s, v),
                /// Removes all mappings.
                write clear = |_, s, _| {
                    s.table_mut("map").clear();
                    Ok(())
                },
                /// The pattern of each input.
                read patterns = |e, s| Ok($crate::nat::listing::patterns(&e.inputs, s)),
                /// The pattern of input N.
                each pattern = |e, s, i| $crate::nat::listing::pattern(&e.inputs, s, i),
                /// Another pattern for input N, which changes the same parts and has the same outputs (`pattern SADDR SPORT DADDR
                /// DPORT FOUTPUT ROUTPUT`); the mappings that the input has made go.
                set_each pattern = |e, s, i, v| $crate::nat::live::set(&e.inputs, s, i, v),
                $($handlers)*
            }
            ports |e| e.inputs.ports();
            resolve |e, peers| {
                e.inputs.resolve(e.capacity.as_ref().unwrap_or(&e.mapping_capacity), peers)?;
                $(e.inputs.check($only).map_err(|e| e.lines().map(str::to_owned).collect::<Vec<_>>())?;)?
                Ok(())
            };
        }

        impl $name {
            /// The table of its mappings, in a configuration where it has this name.
            fn table(
                &self,
                name: &str,
                key: &'static [(&'static str, Width)],
                value: &'static [(&'static str, Width)],
                spare: $crate::nat::eviction::Spare,
            ) -> $crate::nat::mapping::Settings {
                $crate::nat::mapping::Settings {
                    name: name.to_owned(),
                    inputs: self.inputs.clone(),
                    capacity: self.capacity.as_ref().unwrap_or(&self.mapping_capacity).number(&self.inputs.1),
                    reply_anno: self.reply_anno.map(|a| a.0),
                    key,
                    value,
                    spare,
                    fixed: vec![],
                }
            }
        }
    };
}
pub(crate) use rewriter;
