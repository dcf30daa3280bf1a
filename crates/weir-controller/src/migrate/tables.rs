//! Whether what a function keeps fits a function of another version of its image. Pure.

use weir_api::images::{ImageTable, TableField};

/// What becomes of the tables of a function that becomes one of another version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fates {
    /// Those of the new one that begin empty.
    pub begin: Vec<String>,
    /// Those of the old one that end.
    pub end: Vec<String>,
    /// What nobody has allowed: each says which table, and why.
    pub refused: Vec<String>,
}

/// A table as people call it.
fn name(t: &ImageTable) -> String {
    format!("{}.{}", t.element, t.name)
}

/// Whether it is a count of an element without a name: what such are called follows from their number in the script, and says little.
fn is_unnamed_count(t: &ImageTable) -> bool {
    t.element.contains('@') && t.kind == "array" && t.capacity == 1
}

fn fields(list: &[TableField]) -> String {
    let fields: Vec<String> = list.iter().map(|f| format!("{}:{}", f.name, f.bits)).collect();
    if fields.is_empty() { "nothing".to_owned() } else { fields.join(" ") }
}

/// In what a table is not as the one of the same element and name before; how many entries it has space for is not part of that.
fn difference(old: &ImageTable, new: &ImageTable) -> Option<String> {
    if old.kind != new.kind {
        return Some(format!("it is of kind {}, and was {}", new.kind, old.kind));
    }
    let both = [("key", &old.key, &new.key), ("value", &old.value, &new.value)];
    let (what, old, new) = both.into_iter().find(|(_, old, new)| old != new)?;
    Some(format!("its {what} is {}, and was {}", fields(new), fields(old)))
}

/// What becomes of tables if the content of those in `leave` may end.
///
/// # Errors
/// There is no table of such a name, and which there are.
pub(super) fn fates(old: &[ImageTable], new: &[ImageTable], leave: &[String]) -> Result<Fates, String> {
    if let Some(wrong) = leave.iter().find(|l| !old.iter().any(|t| name(t) == **l)) {
        let known: Vec<String> = old.iter().map(name).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(format!("the function has no table '{wrong}' that could be left; it has {known}"));
    }
    let mut found = Fates::default();
    for t in old.iter().filter(|t| !is_unnamed_count(t)) {
        let allowed = leave.contains(&name(t));
        let same = new.iter().find(|n| (&n.element, &n.class, &n.name) == (&t.element, &t.class, &t.name));
        let why = match same {
            None => Some("the new image has none of that element and name".to_owned()),
            Some(n) => difference(t, n),
        };
        let Some(why) = why else {
            if allowed {
                found.end.push(name(t));
                found.begin.push(name(t));
            }
            continue;
        };
        found.end.push(name(t));
        if same.is_some() {
            found.begin.push(name(t));
        }
        if !allowed {
            found.refused.push(format!("the table '{}' would be lost: {why}", name(t)));
        }
    }
    let is_new = |n: &&ImageTable| {
        !old.iter().any(|t| (&n.element, &n.class, &n.name) == (&t.element, &t.class, &t.name))
    };
    found.begin.extend(new.iter().filter(|t| !is_unnamed_count(t)).filter(is_new).map(name));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(element: &str, name: &str, key: u32, value: &[(&str, u32)]) -> ImageTable {
        let field = |&(name, bits): &(&str, u32)| TableField { name: name.into(), bits };
        ImageTable {
            element: element.into(),
            class: "IPRewriter".into(),
            name: name.into(),
            kind: "exact".into(),
            key: vec![field(&("port", key))],
            value: value.iter().map(field).collect(),
            capacity: 100,
        }
    }

    #[test]
    fn tables_of_one_shape_move_new_ones_begin_and_others_end_only_if_that_is_allowed() {
        let old = [table("nat", "map", 16, &[("out", 16)]), table("nat", "peers", 16, &[])];
        assert_eq!(fates(&old, &old, &[]), Ok(Fates::default()));
        let larger =
            [ImageTable { capacity: 5, ..old[0].clone() }, old[1].clone(), table("new", "t", 8, &[])];
        let found = fates(&old, &larger, &[]).unwrap();
        assert_eq!((found.begin, found.end, found.refused.len()), (vec!["new.t".to_owned()], vec![], 0));
        let leave = ["nat.peers".to_owned()];
        let found = fates(&old, &old[..1], &[]).unwrap();
        assert_eq!(found.end, leave);
        assert_eq!(
            found.refused,
            ["the table 'nat.peers' would be lost: the new image has none of that element and name"]
        );
        assert_eq!(fates(&old, &old[..1], &leave).unwrap().refused.len(), 0);
        let wrong = fates(&old, &old, &["nat.pears".into()]).unwrap_err();
        assert!(wrong.contains("'nat.pears'") && wrong.contains("nat.map, nat.peers"), "{wrong}");
    }

    #[test]
    fn shapes_that_differ_are_refused_with_what_differs() {
        let old = [table("nat", "map", 16, &[("out", 16)])];
        let refused = |new: ImageTable| fates(&old, &[new], &[]).unwrap().refused.concat();
        let key = refused(table("nat", "map", 32, &[("out", 16)]));
        assert!(key.contains("its key is port:32, and was port:16"), "{key}");
        let value = refused(table("nat", "map", 16, &[("out", 16), ("age", 8)]));
        assert!(value.contains("its value is out:16 age:8, and was out:16"), "{value}");
        let kind = refused(ImageTable { kind: "rules".into(), ..old[0].clone() });
        assert!(kind.contains("of kind rules, and was exact"), "{kind}");
        let count = ImageTable { kind: "array".into(), capacity: 1, ..table("Discard@4", "count", 32, &[]) };
        let none = fates(&[count], &[], &[]).unwrap();
        assert_eq!(none, Fates::default(), "counts of elements without a name");
        let class = refused(ImageTable { class: "Other".into(), ..old[0].clone() });
        assert!(class.contains("none of that element"), "{class}");
    }
}
