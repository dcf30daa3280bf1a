//! The images of this machine: root file systems by the digest of their manifest.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use oci_spec::image::{Config, ImageConfiguration, ImageManifest};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::archive::Archive;
use crate::content::{self, MAX_DOCUMENT, MAX_LAYER, MAX_LAYERS};
use crate::registry::causes;
use crate::unpack::{User, unpack};
use crate::{Digest, Error, Registries, Sha256Writer, Source};

/// What the names of folders end with that are just being made or removed.
const PARTIAL: &str = ".partial";
/// How long an image may take to come.
const TIME: Duration = Duration::from_secs(15 * 60);

/// Root file systems in a folder.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    registries: Registries,
    /// Held while an image is brought in from a source: none is brought twice from one, and none waits for a slow one.
    bringing: Mutex<BTreeMap<(Digest, String), Held>>,
}

/// Held by whoever brings an image in.
type Held = Arc<tokio::sync::Mutex<()>>;

/// An image on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Its files.
    pub files: PathBuf,
    /// What it says about running it.
    pub config: Config,
    /// Whom its program runs as.
    pub user: User,
}

/// The metadata that is kept beside the files.
#[derive(Serialize, Deserialize)]
struct Kept {
    config: Config,
    user: User,
}

impl Store {
    /// Those in a folder, which is made when one is brought in.
    pub fn new(folder: PathBuf, registries: Registries) -> Store {
        // What a daemon that was killed has left.
        for entry in fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok) {
            if entry.file_name().to_string_lossy().ends_with(PARTIAL) {
                _ = fs::remove_dir_all(entry.path());
            }
        }
        Store { folder, registries, bringing: Mutex::default() }
    }

    /// The digest of an image's manifest for this machine, by which it is known from then on.
    ///
    /// # Errors
    /// It cannot be had, or is no image.
    pub async fn resolve(&self, source: &Source) -> Result<Digest, Error> {
        let pinned = source.digest().filter(|d| self.has(d));
        match (pinned, source) {
            (Some(digest), _) => Ok(digest),
            (None, Source::Registry(reference)) => Ok(self.registries.manifest(reference).await?.0),
            (None, Source::Path { path, tag }) => {
                let (path, tag) = (path.clone(), tag.clone());
                in_background(move || Ok(Archive::open(&path)?.manifest(tag.as_deref())?.0)).await
            }
        }
    }

    /// Whether an image is here.
    pub fn has(&self, digest: &Digest) -> bool {
        self.place(digest).is_dir()
    }

    fn place(&self, digest: &Digest) -> PathBuf {
        self.folder.join(digest.hex())
    }

    /// An image that is here.
    ///
    /// # Errors
    /// It is not, or was damaged.
    pub fn get(&self, digest: &Digest) -> Result<Root, Error> {
        let place = self.place(digest);
        let kept =
            fs::read(place.join("image.json")).and_then(|bytes| Ok(serde_json::from_slice::<Kept>(&bytes)?));
        let Kept { config, user } =
            kept.map_err(Error::io(format!("read the image {digest} of this machine")))?;
        Ok(Root { files: place.join("root"), config, user })
    }

    /// Brings an image here, unless it is here: all of it or nothing.
    ///
    /// # Errors
    /// It cannot be had, is not what its digest says, or cannot be unpacked.
    pub async fn bring(&self, source: &Source, digest: &Digest) -> Result<(), Error> {
        if self.has(digest) {
            return Ok(());
        }
        let own = {
            let mut all = self.bringing.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|_, held| Arc::strong_count(held) > 1);
            all.entry((digest.clone(), source.to_string())).or_default().clone()
        };
        let _own = own.lock().await;
        if self.has(digest) {
            return Ok(());
        }
        let partial = self.folder.join(format!("{}.{}", digest.hex(), unique()));
        let done = match timeout(TIME, self.bring_to(source, digest, &partial)).await {
            Ok(done) => done,
            Err(_) => {
                Err(Error::invalid(source, format!("it did not come within {} minutes", TIME.as_secs() / 60)))
            }
        };
        let done = done.and_then(|()| match fs::rename(&partial, self.place(digest)) {
            // From another source meanwhile: by its digest it is the same.
            Err(_) if self.has(digest) => Ok(()),
            renamed => renamed.map_err(Error::io(format!("keep the image {source}"))),
        });
        // After a success there is none.
        _ = fs::remove_dir_all(&partial);
        done
    }

    async fn bring_to(&self, source: &Source, digest: &Digest, partial: &Path) -> Result<(), Error> {
        let image = source.to_string();
        let making = || Error::io(format!("make {}", partial.display()));
        // For root alone: what has the set-user-ID bit in an image must not be a program of this machine's users.
        let private = || fs::DirBuilder::new().recursive(true).mode(0o700).create(partial);
        private()
            .and_then(|()| fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o700)))
            .map_err(making())?;
        let (config, layers) = match source {
            Source::Registry(reference) => {
                let reference = reference.clone_with_digest(digest.to_string());
                let (_, manifest) = self.registries.manifest(&reference).await?;
                let manifest = manifest_of(&image, &manifest)?;
                let mut config = Vec::new();
                self.registries.blob(&reference, manifest.config(), MAX_DOCUMENT, &mut config).await?;
                let mut layers = Vec::new();
                for layer in manifest.layers() {
                    let mut file = temporary(partial).map_err(making())?;
                    self.registries.blob(&reference, layer, MAX_LAYER, &mut file).await?;
                    layers.push(file);
                }
                (config, layers)
            }
            Source::Path { path, tag } => {
                let (path, tag, partial) = (path.clone(), tag.clone(), partial.to_owned());
                let (image, digest) = (image.clone(), digest.clone());
                in_background(move || from_archive(&image, &path, tag.as_deref(), &digest, &partial)).await?
            }
        };
        let partial = partial.to_owned();
        in_background(move || put_together(&image, &partial, &config, layers)).await
    }

    /// Removes all images but these.
    pub fn retain(&self, used: &[Digest]) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            // One that is just being brought is another's.
            if !name.ends_with(PARTIAL) && !used.iter().any(|d| d.hex() == name) {
                // At once: one that is half-removed would count as there.
                let gone = self.folder.join(format!("{name}.{}", unique()));
                if fs::rename(entry.path(), &gone).is_ok() {
                    _ = fs::remove_dir_all(gone);
                }
            }
        }
    }
}

/// The configuration and the layers of an image in a folder or file.
fn from_archive(
    image: &str,
    path: &Path,
    tag: Option<&str>,
    digest: &Digest,
    partial: &Path,
) -> Result<(Vec<u8>, Vec<File>), Error> {
    let mut archive = Archive::open(path)?;
    let (found, manifest) = archive.manifest(tag)?;
    if found != *digest {
        let what = format!(
            "it is not what it was: {digest} then, {found} now; apply the graph again to use what is there"
        );
        return Err(Error::invalid(&image, what));
    }
    let manifest = manifest_of(image, &manifest)?;
    let (named, _) = content::named(image, manifest.config(), MAX_DOCUMENT)?;
    let mut config = Vec::new();
    let reading = || Error::io(format!("read {image}"));
    archive.blob(&named)?.take(MAX_DOCUMENT).read_to_end(&mut config).map_err(reading())?;
    let config = content::verified(image, &named, config)?;
    let mut layers = Vec::new();
    for layer in manifest.layers() {
        let (named, size) = content::named(image, layer, MAX_LAYER)?;
        let file = temporary(partial).map_err(Error::io(format!("make {}", partial.display())))?;
        let mut writer = Sha256Writer::new(file);
        io::copy(&mut archive.blob(&named)?.take(size + 1), &mut writer).map_err(reading())?;
        let (file, found, _) = writer.finish();
        if found != named {
            return Err(content::mismatch(image, &named, &found));
        }
        layers.push(file);
    }
    Ok((config, layers))
}

/// Unpacks layers and keeps what is to be known beside them.
fn put_together(image: &str, partial: &Path, config: &[u8], layers: Vec<File>) -> Result<(), Error> {
    let config = ImageConfiguration::from_reader(config)
        .map_err(|e| Error::invalid(&image, format!("its configuration is none: {e}")))?;
    let config = config.config().clone().unwrap_or_default();
    let root = partial.join("root");
    let made = || -> io::Result<()> {
        fs::create_dir(&root)?;
        let layers: io::Result<Vec<File>> = layers.into_iter().map(rewound).collect();
        let user = unpack(&root, layers?, config.user().as_deref().unwrap_or_default())?;
        let kept = Kept { config: config.clone(), user };
        fs::write(partial.join("image.json"), serde_json::to_vec(&kept)?)
    };
    made().map_err(|e| Error::Io { what: format!("unpack {image}"), source: io::Error::other(causes(&e)) })
}

fn rewound(mut file: File) -> io::Result<File> {
    io::Seek::rewind(&mut file)?;
    Ok(file)
}

fn manifest_of(image: &str, bytes: &[u8]) -> Result<Box<ImageManifest>, Error> {
    let content::Document::Manifest(manifest) = content::document(image, bytes)? else {
        return Err(Error::invalid(&image, "it is a list of manifests"));
    };
    if manifest.layers().len() > MAX_LAYERS {
        return Err(Error::invalid(&image, format!("it has more than {MAX_LAYERS} layers")));
    }
    if let Some(kind) = manifest.artifact_type() {
        return Err(Error::invalid(&image, format!("it is no container image but {kind}")));
    }
    Ok(manifest)
}

/// A file without a name, which goes when it is closed.
fn temporary(folder: &Path) -> io::Result<File> {
    let path = folder.join("layer");
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(path)?;
    Ok(file)
}

/// An ending of a name that no other call has had.
fn unique() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}{PARTIAL}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

async fn in_background<T: Send + 'static>(
    f: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(f).await;
    done.map_err(|e| Error::Io { what: "unpack an image".into(), source: io::Error::other(e) })?
}
