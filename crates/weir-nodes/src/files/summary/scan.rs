//! A cursor over the text of a field.

/// Text that has not been read yet.
#[derive(Clone, Copy)]
pub(super) struct Scan<'a>(pub &'a str);

impl Scan<'_> {
    /// Whether the text goes on with `word`, which is then read.
    pub fn skip(&mut self, word: &str) -> bool {
        match self.0.strip_prefix(word) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// Whether a digit comes next.
    pub fn at_digit(self) -> bool {
        self.0.starts_with(|c: char| c.is_ascii_digit())
    }

    /// Reads a decimal number.
    pub fn number(&mut self) -> Option<u32> {
        let end = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        digits.parse().ok()
    }

    /// Reads a number below 256.
    pub fn byte(&mut self) -> Option<u8> {
        self.number()?.try_into().ok()
    }

    /// Reads an IP address.
    pub fn addr(&mut self) -> Option<[u8; 4]> {
        let mut addr = [0; 4];
        for (i, b) in addr.iter_mut().enumerate() {
            if i > 0 && !self.skip(".") {
                return None;
            }
            *b = self.byte()?;
        }
        Some(addr)
    }

    /// Reads an option that has no form of its own, `98` or `99=0:5:10`, and appends it.
    pub fn plain_option(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let kind = self.byte()?;
        out.push(kind);
        if !self.0.starts_with('=') {
            return Some(());
        }
        let length = out.len();
        out.push(0);
        let mut sep = "=";
        while self.skip(sep) {
            out.push(self.byte()?);
            sep = ":";
        }
        *out.get_mut(length)? = u8::try_from(out.len() - length + 1).ok()?;
        Some(())
    }
}
