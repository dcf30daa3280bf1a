//! Conditions under which a change is made (RFC 9110, section 13): what a client has seen is still there, or nothing is.

/// Entity tags that a header field lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tags {
    /// `*`: any.
    Any,
    /// One of these. A weak tag is `None`: it can be the tag of no graph.
    List(Vec<Option<String>>),
}

impl Tags {
    /// Reads `*`, or entity tags in quotes with commas between (RFC 9110, section 8.8.3).
    ///
    /// # Errors
    /// What would be right.
    pub fn parse(text: &str) -> Result<Tags, String> {
        let text = text.trim();
        if text == "*" {
            return Ok(Tags::Any);
        }
        let wrong = || format!("{text:?} is no list of entity tags; write * or what ETag said, in quotes");
        let mut tags = Vec::new();
        let mut rest = text;
        loop {
            let (weak, quoted) = match rest.strip_prefix("W/") {
                Some(rest) => (true, rest),
                None => (false, rest),
            };
            let (tag, behind) = quoted.strip_prefix('"').and_then(|q| q.split_once('"')).ok_or_else(wrong)?;
            tags.push((!weak).then(|| tag.to_owned()));
            let behind = behind.trim_start();
            if behind.is_empty() {
                return Ok(Tags::List(tags));
            }
            rest = behind.strip_prefix(',').ok_or_else(wrong)?.trim_start();
        }
    }

    /// Whether the tag of what is there, if there is anything, is one of these.
    pub fn fit(&self, tag: Option<&str>) -> bool {
        match (self, tag) {
            (_, None) => false,
            (Tags::Any, Some(_)) => true,
            (Tags::List(tags), Some(tag)) => tags.iter().flatten().any(|t| t == tag),
        }
    }
}

/// When a change is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Precondition {
    /// Only if this fits (`If-Match`).
    pub fits: Option<Tags>,
    /// Only if this does not fit (`If-None-Match`).
    pub differs: Option<Tags>,
}

impl Precondition {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.fits.is_none() && self.differs.is_none()
    }

    /// Whether the change may be made where that tag is.
    pub fn holds(&self, tag: Option<&str>) -> bool {
        self.fits.as_ref().is_none_or(|t| t.fit(tag)) && !self.differs.as_ref().is_some_and(|t| t.fit(tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_tags_are_read_and_other_text_is_refused() {
        let list =
            |tags: &[Option<&str>]| Ok(Tags::List(tags.iter().map(|t| t.map(str::to_owned)).collect()));
        assert_eq!(Tags::parse(" * "), Ok(Tags::Any));
        assert_eq!(Tags::parse("\"1-a\""), list(&[Some("1-a")]));
        assert_eq!(Tags::parse("\"a,b\" , W/\"c\",\"\""), list(&[Some("a,b"), None, Some("")]));
        for bad in ["", "3", "\"a", "\"a\" \"b\"", "\"a\",", "*,\"a\"", "w/\"a\""] {
            assert!(Tags::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn conditions_hold_as_the_rfc_says() {
        let of = |fits: Option<&str>, differs: Option<&str>| Precondition {
            fits: fits.map(|t| Tags::parse(t).unwrap()),
            differs: differs.map(|t| Tags::parse(t).unwrap()),
        };
        assert!(of(None, None).holds(None) && of(None, None).holds(Some("a")));
        assert!(of(Some("\"a\", \"b\""), None).holds(Some("b")) && !of(Some("\"a\""), None).holds(Some("b")));
        assert!(of(Some("*"), None).holds(Some("b")) && !of(Some("*"), None).holds(None));
        assert!(of(None, Some("*")).holds(None) && !of(None, Some("*")).holds(Some("b")));
        assert!(of(None, Some("\"a\"")).holds(Some("b")) && !of(None, Some("\"a\"")).holds(Some("a")));
        assert!(!of(Some("W/\"a\""), None).holds(Some("a")), "a weak tag proves nothing");
    }
}
