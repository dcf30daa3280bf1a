//! Which argument of a compound element goes to which parameter.

use crate::ast::{Formal, REST};
use crate::expand::keyword_value;
use crate::program::Body;

/// The values of the parameters, one for each, or `None` if the arguments do not fit: positional ones first, then
/// each keyword once or more (the last counts), the others to `__REST__` if there is one.
pub(crate) fn assign(formals: &[Formal], args: &[String]) -> Option<Vec<String>> {
    let positional = formals.iter().take_while(|f| f.keyword.is_none()).count();
    let takes_rest = formals.last().is_some_and(|f| f.keyword.as_deref() == Some(REST));
    let mut values: Vec<Option<String>> = args.iter().take(positional).cloned().map(Some).collect();
    if values.len() < positional {
        return None;
    }
    values.resize(formals.len(), None);
    let mut rest = Vec::new();
    for arg in args.get(positional..)? {
        let taken = formals.iter().zip(&mut values).skip(positional).find_map(|(formal, value)| {
            let keyword = formal.keyword.as_deref().filter(|k| *k != REST)?;
            Some((value, keyword_value(arg, keyword)?))
        });
        match taken {
            Some((value, text)) => *value = Some(text.to_string()),
            None if takes_rest => rest.push(arg.as_str()),
            None => return None,
        }
    }
    if takes_rest && let Some(last) = values.last_mut() {
        *last = Some(rest.join(", "));
    }
    values.into_iter().collect()
}

/// How a definition looks from outside: `Foo(<arg>, KEY, ...)[1 input, 2 outputs]`.
pub(crate) fn signature(name: &str, body: &Body) -> String {
    let mut out = shown_name(name);
    if !body.formals.is_empty() {
        let formals: Vec<&str> = body
            .formals
            .iter()
            .map(|formal| match formal.keyword.as_deref() {
                None => "<arg>",
                Some(REST) => "...",
                Some(keyword) => keyword,
            })
            .collect();
        out.push_str(&format!("({})", formals.join(", ")));
    }
    out.push_str(&format!("[{}]", counts(body.inputs, body.outputs)));
    out
}

/// How a use looks: `Foo[2 arguments, 1 input, 1 output]`.
pub(crate) fn call_signature(name: &str, args: usize, (inputs, outputs): (u32, u32)) -> String {
    let args = match args {
        0 => String::new(),
        1 => "1 argument, ".into(),
        n => format!("{n} arguments, "),
    };
    format!("{}[{args}{}]", shown_name(name), counts(inputs, outputs))
}

fn shown_name(name: &str) -> String {
    if name.is_empty() { "<anonymous>".into() } else { name.into() }
}

fn counts(inputs: u32, outputs: u32) -> String {
    let plural = |n| if n == 1 { "" } else { "s" };
    format!("{inputs} input{}, {outputs} output{}", plural(inputs), plural(outputs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Loc;

    fn values(formals: &[(&str, &str)], args: &[&str]) -> Option<Vec<String>> {
        let loc = Loc { source: 0, offset: 0 };
        let formals: Vec<Formal> = formals
            .iter()
            .map(|(keyword, name)| Formal {
                name: name.to_string(),
                keyword: (!keyword.is_empty()).then(|| keyword.to_string()),
                loc,
            })
            .collect();
        assign(&formals, &args.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_go_to_positions_keywords_and_the_rest() {
        let all = [("", "a"), ("COUNT", "c"), (REST, "r")];
        assert_eq!(values(&all, &["1", "2", "COUNT 3", "FOO 4"]).unwrap(), ["1", "3", "2, FOO 4"]);
        assert_eq!(values(&all, &["1"]), None);
        assert_eq!(values(&[("", "a"), ("", "b")], &["1"]), None);
        assert_eq!(values(&[("", "a"), ("", "b")], &["1", "2", "3"]), None);
        assert_eq!(values(&[("COUNT", "c")], &["1"]), None);
        assert_eq!(values(&[("K", "k")], &["K 1", "K 2"]).unwrap(), ["2"]);
        assert_eq!(values(&[(REST, "r")], &[]).unwrap(), [""]);
        assert_eq!(values(&[], &[]).unwrap(), [] as [&str; 0]);
    }
}
