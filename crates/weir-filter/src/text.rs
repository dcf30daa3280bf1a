//! Texts that people write: numbers and words, and what to say of those that are wrong.

/// A single value (an address, a port range, …) that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {help}")]
pub struct ValueError {
    /// What was wrong.
    pub message: String,
    /// What would be right.
    pub help: String,
}

impl ValueError {
    /// What was wrong, and what would be right.
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

impl From<weir_net::EtherAddrError> for ValueError {
    fn from(e: weir_net::EtherAddrError) -> Self {
        let message = format!("{} is not an Ethernet address", quote(&e.0));
        Self::new(message, "write six hexadecimal bytes, such as 02:00:00:00:00:01")
    }
}

/// ` "name"` quoted for a message, shortened if absurdly long.
pub fn quote(text: &str) -> String {
    const MAX: usize = 60;
    if text.chars().count() <= MAX {
        return format!("{text:?}");
    }
    let head: String = text.chars().take(MAX).collect();
    format!("{head:?}…")
}

/// The known word closest to `word`, if one is close enough to have been meant.
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    let fold = |s: &str| s.to_ascii_lowercase().replace('-', "_");
    // `src_ip` means `ip_src`.
    let sorted = |s: &str| {
        let mut parts: Vec<&str> = s.split('_').collect();
        parts.sort_unstable();
        parts.join("_")
    };
    let word = fold(word);
    let score = |k: &str| {
        strsim::jaro_winkler(&word, &fold(k)).max(strsim::jaro_winkler(&sorted(&word), &sorted(&fold(k))))
    };
    known
        .into_iter()
        .map(|k| (score(k), k))
        .filter(|(score, _)| *score > 0.84)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}

/// A whole number, decimal or `0x…`.
pub fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) if !hex.starts_with('+') => u64::from_str_radix(hex, 16).ok(),
        Some(_) => None,
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}
