use super::pattern::NamedPattern;
use crate::prelude::*;

element! {
    /// Gives names to patterns of `IPRewriter` and `IPAddrRewriter`.
    ///
    /// Each argument is a name and a pattern, `NAME SADDR SPORT DADDR DPORT`. Every rewriter of the configuration may
    /// use the name in its input specifications (`pattern NAME FOUTPUT ROUTPUT`). Rewriters that share a pattern with
    /// a sequential range (`1024-65535#`) take turns in it. The element has no ports.
    IPRewriterPatterns: "0/0", "a/a";
    example "IPRewriterPatterns(nat 192.0.2.1 1024-65535 - -);
        Idle -> rw :: IPRewriter(pattern nat 0 1, drop) -> Discard; Idle -> [1] rw [1] -> Discard;";
    params {
        /// Names and patterns.
        rest patterns: Vec<NamedPattern>,
    }
    check |e| {
        let mut names: Vec<&str> = e.patterns.iter().map(|p| p.name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|w| w[0] == w[1]) {
            Some(w) => Err(format!("pattern '{}' is defined twice", w[0])),
            None => Ok(()),
        }
    };
}

fn program(_: &IPRewriterPatterns, _: &mut Builder) {}

#[cfg(test)]
mod tests {
    use crate::class_named;
    use crate::testing::Harness;

    fn errors(args: &[&str]) -> Vec<String> {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        class_named("IPRewriterPatterns").unwrap().configure(&args).err().unwrap_or_default()
    }

    #[test]
    fn it_has_no_ports_and_no_program() {
        let h = Harness::new("IPRewriterPatterns", &["nat 1.0.0.1 1024-65535 - -"], 0, 0);
        assert!(h.program.entries.is_empty());
    }

    #[test]
    fn bad_definitions_are_refused() {
        assert!(errors(&["a - - - -", "b 1.0.0.1 1-2# - -"]).is_empty());
        assert_eq!(errors(&["a - - - -", "a - - - -"]), ["pattern 'a' is defined twice"]);
        assert!(errors(&["a"])[0].contains("write NAME SADDR SPORT DADDR DPORT"));
        let e = errors(&["a - - - -", "b - x - -"]);
        assert!(e[0].starts_with("argument 2: pattern 'b': bad source port"), "{e:?}");
    }
}
