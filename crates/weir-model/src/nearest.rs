//! "Did you mean …?"

/// The name that is most like `wanted`, or else the shortest that begins with it, as ` (did you mean 'NAME'?)`; nothing if none is near.
pub fn nearest<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> String {
    let limit = (wanted.chars().count() / 3).max(1);
    let distance = |name: &'a str| (strsim::damerau_levenshtein(wanted, name), name);
    let begins = wanted.chars().count() > 2;
    let (mut like, mut longer) = (None, None);
    for (d, name) in known.map(distance) {
        if (1..=limit).contains(&d) {
            like = like.into_iter().chain([(d, name)]).min();
        } else if begins && name.starts_with(wanted) {
            longer = longer.into_iter().chain([(d, name)]).min();
        }
    }
    match like.or(longer) {
        Some((_, name)) => format!(" (did you mean '{name}'?)"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_suggested_and_a_far_one_is_not() {
        let known = ["firewall", "nat", "firewall-nat"];
        assert_eq!(nearest("firewal", known.into_iter()), " (did you mean 'firewall'?)");
        assert_eq!(nearest("nta", known.into_iter()), " (did you mean 'nat'?)");
        assert_eq!(nearest("fire", known.into_iter()), " (did you mean 'firewall'?)");
        assert_eq!(nearest("na", ["nation"].into_iter()), "");
        assert_eq!(nearest("router", known.into_iter()), "");
        assert_eq!(nearest("", known.into_iter()), "");
    }
}
