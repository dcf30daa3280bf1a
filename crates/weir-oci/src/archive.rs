//! Images in a folder or a file: the OCI image layout, as it is or in an archive, and the archives of `docker save`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use oci_spec::image::ImageIndex;
use serde::Deserialize;
use serde_json::json;

use crate::content::{self, Document, MAX_DOCUMENT};
use crate::{Digest, Error};

/// Most entries of an archive.
const MAX_ENTRIES: usize = 100_000;

/// A folder or archive, opened.
#[derive(Debug)]
pub(crate) struct Archive {
    path: PathBuf,
    files: Files,
    /// The files that have other names than their digests.
    names: BTreeMap<Digest, String>,
}

#[derive(Debug)]
enum Files {
    Folder,
    /// Where each file begins in the archive, and its length.
    Tar(BTreeMap<String, (u64, u64)>),
}

/// The list in archives of `docker save`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

impl Archive {
    /// Opens a folder or a file.
    pub fn open(path: &Path) -> Result<Archive, Error> {
        let cannot = || format!("read {}", path.display());
        let files = if path.is_dir() {
            Files::Folder
        } else if path.exists() && !path.is_file() {
            return Err(Error::invalid(&path.display(), "it is neither a folder nor a file"));
        } else {
            let file = File::open(path).map_err(Error::io(cannot()))?;
            Files::Tar(entries(file).map_err(Error::io(cannot()))?)
        };
        Ok(Archive { path: path.to_owned(), files, names: BTreeMap::new() })
    }

    /// What a file holds, if it is there.
    fn file(&self, name: &str) -> io::Result<Option<Box<dyn Read + Send>>> {
        match &self.files {
            Files::Folder => match File::open(self.path.join(name)) {
                Ok(file) => Ok(Some(Box::new(file))),
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(e) => Err(e),
            },
            Files::Tar(entries) => {
                let Some((at, length)) = entries.get(name) else { return Ok(None) };
                let mut file = File::open(&self.path)?;
                file.seek(SeekFrom::Start(*at))?;
                Ok(Some(Box::new(file.take(*length))))
            }
        }
    }

    /// The text of a small file, if it is there.
    fn document(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let read = || -> io::Result<Option<Vec<u8>>> {
            let Some(file) = self.file(name)? else { return Ok(None) };
            let mut bytes = Vec::new();
            file.take(MAX_DOCUMENT).read_to_end(&mut bytes)?;
            Ok(Some(bytes))
        };
        read().map_err(Error::io(format!("read {name} of {}", self.path.display())))
    }

    /// What a digest names.
    pub fn blob(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, Error> {
        let usual = format!("blobs/sha256/{}", digest.hex());
        let name = self.names.get(digest).unwrap_or(&usual);
        let found = self.file(name).map_err(Error::io(format!("read {name} of {}", self.path.display())))?;
        found.ok_or_else(|| self.invalid(format!("it has no {name}")))
    }

    /// The manifest of its image for this machine.
    pub fn manifest(&mut self, tag: Option<&str>) -> Result<(Digest, Vec<u8>), Error> {
        let image = self.path.display().to_string();
        if let Some(bytes) = self.document("index.json")? {
            let wrong = |e| Error::invalid(&image, format!("its index.json is none: {e}"));
            let mut index = ImageIndex::from_reader(&bytes[..]).map_err(wrong)?;
            let mut tag = tag;
            // A layout may name lists of manifests by platform.
            for _ in 0..3 {
                let descriptor = content::for_this_machine(&image, &index, tag.take())?;
                let (digest, _) = content::named(&image, &descriptor, MAX_DOCUMENT)?;
                let mut bytes = Vec::new();
                let blob = self.blob(&digest)?.take(MAX_DOCUMENT).read_to_end(&mut bytes);
                blob.map_err(Error::io(format!("read {image}")))?;
                let bytes = content::verified(&image, &digest, bytes)?;
                match content::document(&image, &bytes)? {
                    Document::Manifest(_) => return Ok((digest, bytes)),
                    Document::Index(inner) => index = *inner,
                }
            }
            return Err(self.invalid("its lists of manifests lead to no manifest"));
        }
        // A folder is no archive: what its list names could be anywhere.
        let list = match self.files {
            Files::Folder => None,
            Files::Tar(_) => self.document("manifest.json")?,
        };
        match list {
            Some(bytes) => self.saved(&bytes, tag),
            None => Err(self
                .invalid("it has neither index.json, as an OCI layout, nor manifest.json, as docker save")),
        }
    }

    /// A manifest for an image of `docker save`, which has none.
    fn saved(&mut self, list: &[u8], tag: Option<&str>) -> Result<(Digest, Vec<u8>), Error> {
        let images: Vec<Saved> = serde_json::from_slice(list)
            .map_err(|e| self.invalid(format!("its manifest.json is none: {e}")))?;
        let has = |s: &&Saved| {
            let mut tags = s.repo_tags.iter().flatten();
            tag.is_none_or(|tag| tags.any(|t| t == tag || t.rsplit_once(':').is_some_and(|(_, t)| t == tag)))
        };
        let fitting: Vec<&Saved> = images.iter().filter(has).collect();
        let [image] = fitting[..] else {
            let tags: Vec<&str> =
                images.iter().flat_map(|i| i.repo_tags.iter().flatten()).map(String::as_str).collect();
            return Err(self.invalid(format!("say which of its images, as PATH:TAG: {}", tags.join(", "))));
        };
        let config = self.descriptor(&image.config, "application/vnd.oci.image.config.v1+json")?;
        let layers: Result<Vec<serde_json::Value>, Error> = image
            .layers
            .iter()
            .map(|l| self.descriptor(l, "application/vnd.oci.image.layer.v1.tar"))
            .collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": content::MANIFEST_TYPES[0],
            "config": config,
            "layers": layers?,
        });
        let bytes = manifest.to_string().into_bytes();
        Ok((Digest::of(&bytes), bytes))
    }

    fn descriptor(&mut self, name: &str, media_type: &str) -> Result<serde_json::Value, Error> {
        let reading = || format!("read {name} of {}", self.path.display());
        let file = self.file(name).map_err(Error::io(reading()))?;
        let file =
            file.ok_or_else(|| self.invalid(format!("it has no {name}, which its manifest.json names")))?;
        let mut writer = crate::Sha256Writer::new(io::sink());
        io::copy(&mut { file }, &mut writer).map_err(Error::io(reading()))?;
        let (_, digest, size) = writer.finish();
        let value = json!({"mediaType": media_type, "digest": digest.to_string(), "size": size});
        self.names.insert(digest, name.to_owned());
        Ok(value)
    }

    fn invalid(&self, what: impl Into<String>) -> Error {
        Error::invalid(&self.path.display(), what)
    }
}

/// The regular files of an archive.
fn entries(file: File) -> io::Result<BTreeMap<String, (u64, u64)>> {
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let length = file.metadata()?.len();
    let mut entries = BTreeMap::new();
    let mut archive = tar::Archive::new(file);
    for entry in archive.entries_with_seek()? {
        // The reader's own message quotes the bytes that it could not read.
        let entry = entry.map_err(|_| match entries.len() {
            0 => invalid("it is no tar archive".to_owned()),
            n => invalid(format!("it is damaged, or cut short, behind its first {n} files")),
        })?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path()?.to_string_lossy().trim_start_matches("./").to_owned();
        if entry.raw_file_position().saturating_add(entry.size()) > length {
            return Err(invalid(format!("it is cut short: {name} is not there as a whole")));
        }
        entries.insert(name, (entry.raw_file_position(), entry.size()));
        if entries.len() > MAX_ENTRIES {
            return Err(invalid("it has too many files for an image".to_owned()));
        }
    }
    Ok(entries)
}
