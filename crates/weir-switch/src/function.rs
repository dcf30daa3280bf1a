//! The text of a function: its image's script as a compound element.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use weir_model::template::{Click, Template};

/// A function as a compound element: `in_0`, `out_0` … count packets and lead to its ports. `line` is the line of the
/// configuration on which the text begins.
///
/// Line directives around the script let messages name the place in the image's own file.
pub(crate) fn text(
    element: &str,
    template: &Template,
    arguments: &BTreeMap<String, String>,
    line: usize,
) -> String {
    let script = template.click().map(|click| script(template, click, arguments)).unwrap_or_default();
    let used = words(&script);
    let mut text = format!("// Image {}\n{element} :: {{\n", template.name);
    for port in 0..template.ports.len() {
        let (input, output) = (format!("in_{port}"), format!("out_{port}"));
        if used.contains(input.as_str()) {
            _ = writeln!(text, "input [{port}] -> {input} :: Counter;");
        } else {
            _ = writeln!(text, "input [{port}] -> Discard;");
        }
        if used.contains(output.as_str()) {
            _ = writeln!(text, "{output} :: Counter -> [{port}] output;");
        } else {
            _ = writeln!(text, "Idle -> [{port}] output;");
        }
    }
    text.push_str(&script);
    // The line behind the directive.
    let next = line + text.lines().count() + 1;
    _ = writeln!(text, "# {next} \"\"\n}};");
    text
}

/// A configuration of nothing but a function whose compound element is called `element`, with nothing at its ports.
pub fn alone(element: &str, template: &Template, arguments: &BTreeMap<String, String>) -> String {
    between(element, template, arguments, template.ports.iter().map(|_| None))
}

/// A configuration of nothing but a function, with what packets come from and go to at its ports, or nothing.
pub(crate) fn between(
    element: &str,
    template: &Template,
    arguments: &BTreeMap<String, String>,
    ends: impl Iterator<Item = Option<(String, String)>>,
) -> String {
    let mut config = text(element, template, arguments, 1);
    for (port, ends) in ends.enumerate() {
        let (input, output) = ends.unwrap_or_else(|| ("Idle".to_owned(), "Discard".to_owned()));
        _ = writeln!(config, "{input} -> [{port}] {element};\n{element} [{port}] -> {output};");
    }
    config
}

/// What packets of a device come from, which may come and go.
pub(crate) fn from_device(device: &str) -> String {
    format!("FromDevice({device}, PROMISC true, WAIT true)")
}

/// Where packets of a port of a function go for such a device. What it does not take at once waits before it.
pub(crate) fn to_device(element: &str, port: usize, device: &str) -> String {
    format!(
        "queue_{element}_{port} :: Queue(1000) -> device_{element}_{port} :: ToDevice({device}, WAIT true)"
    )
}

/// The handlers that say how many packets are under way from here to the other end of a port's device: all are zero when it has taken them.
pub fn under_way(element: &str, port: usize) -> [String; 2] {
    [format!("queue_{element}_{port}.length"), format!("device_{element}_{port}.unread")]
}

/// The script with the values of its parameters, between line directives.
fn script(template: &Template, click: &Click, arguments: &BTreeMap<String, String>) -> String {
    let file = click.script.file.as_deref().unwrap_or(template.name.as_str());
    let file: String = file.chars().filter(|c| !c.is_control() && !matches!(c, '"' | '\\')).collect();
    let first = click.script.line.max(1);
    // Columns are those of the file, unless blanks could stand inside quotes.
    let quoted = click.text.contains(['"', '\'']);
    let indent = " ".repeat(if quoted { 0 } else { click.script.indent });
    let mut text = format!("# {first} \"{file}\"\n");
    for (i, line) in click.text.trim_end().lines().enumerate() {
        let values = substitute(line, arguments);
        _ = writeln!(text, "{}{values}", if line.is_empty() { "" } else { &indent });
        if values.contains('\n') {
            _ = writeln!(text, "# {}", first + i + 1);
        }
    }
    text
}

fn words(script: &str) -> BTreeSet<&str> {
    script.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect()
}

/// Puts values in the place of `$NAME` and `${NAME}`; other names are left for the Click parser.
fn substitute(script: &str, arguments: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(script.len());
    let mut rest = script;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let braced = after.strip_prefix('{');
        let name: &str = {
            let from = braced.unwrap_or(after);
            let end = from.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(from.len());
            &from[..end]
        };
        let whole = match braced {
            Some(b) if b[name.len()..].starts_with('}') => name.len() + 2,
            Some(_) => 0,
            None => name.len(),
        };
        match arguments.get(name).filter(|_| whole > 0) {
            Some(value) => {
                out.push_str(value);
                rest = &after[whole..];
            }
            None => {
                out.push('$');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_replaced_by_whole_names() {
        let arguments = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        assert_eq!(substitute("$A ${A}b $AB $ ${A $", &arguments), "1 1b $AB $ ${A $");
    }

    #[test]
    fn places_are_those_of_the_image() {
        let manifest = "name: f\nports: [a]\nparams: [{name: A, type: text}]\nclick: |\n  in_0 -> Null($A)\n    -> out_0;\n  x;\n";
        let template = Template::parse(manifest).unwrap();
        let script = &template.click().unwrap().script;
        assert_eq!((script.line, script.indent), (5, 2));
        let text = text("e", &template, &BTreeMap::from([("A".into(), "1,\n2".into())]), 10);
        let lines: Vec<&str> = text.lines().collect();
        // The second line of the value is no line of the image.
        assert_eq!(
            lines[4..],
            ["# 5 \"f\"", "  in_0 -> Null(1,", "2)", "# 6", "    -> out_0;", "  x;", "# 21 \"\"", "};"]
        );
        assert_eq!(10 + lines.len() - 1, 21, "the last line is line 21 of the configuration");
    }
}
