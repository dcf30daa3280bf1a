//! `weir lab`: what its file describes is there, works, and goes.

use crate::lab::{Lab, Output, host, repository, until, weir};

/// A lab of this test's own.
struct Office {
    name: String,
    file: String,
}

impl Office {
    fn new(lab: &Lab) -> Office {
        // Namespaces that a failed test leaves are found by their names.
        let name = lab.name("office");
        let text = std::fs::read_to_string(repository().join("examples/lab/office.yaml")).unwrap();
        let text = text
            .replace("name: office", &format!("name: {name}"))
            .replace("../../images", &repository().join("images").display().to_string())
            .replace(
                "../firewall-nat.yaml",
                &repository().join("examples/firewall-nat.yaml").display().to_string(),
            );
        Office { file: lab.write("office.yaml", text), name }
    }

    fn exec(&self, machine: &str, program: &[&str]) -> Output {
        weir(&[&["lab", "exec", "--lab", &self.name, machine, "--"], program].concat())
    }

    fn namespaces(&self) -> Vec<String> {
        let list = host(&["ip", "netns", "list"]).ok();
        list.lines().filter(|l| l.contains(&self.name)).map(str::to_owned).collect()
    }
}

impl Drop for Office {
    fn drop(&mut self) {
        _ = weir(&["lab", "down", &self.name]);
    }
}

#[test]
fn a_lab_is_made_from_its_file_works_and_leaves_nothing() {
    let lab = Lab::new(&[]);
    let office = Office::new(&lab);
    let said = weir(&["lab", "up", &office.file]).ok();
    assert!(said.contains("client   host  eth0 to node:lan"), "{said}");
    // A packet in a hundred is lost.
    until("the page", || {
        office
            .exec("client", &["curl", "-sf", "--max-time", "10", "-o", "/dev/null", "http://10.0.2.2/"])
            .code
            == 0
    });
    let ping = office.exec("client", &["ping", "-c", "20", "-i", "0.05", "-W", "1", "10.0.2.2"]);
    let times =
        ping.stdout.lines().filter_map(|l| l.split("time=").nth(1)?.split(' ').next()?.parse::<f64>().ok());
    let least = times.fold(f64::MAX, f64::min);
    assert!((40.0..f64::MAX).contains(&least), "20 ms there and 20 ms back: {}", ping.stdout);
    assert!(office.exec("node", &["weir", "ps"]).ok().contains("firewall-nat"));
    assert!(weir(&["lab", "ls"]).ok().contains(&office.name));
    let e = weir(&["lab", "up", &office.file]).fails(1);
    assert!(e.contains("is up"), "{e}");
    let e = office.exec("cleint", &["true"]).fails(1);
    assert!(e.contains("client"), "{e}");
    assert_eq!(office.exec("client", &["sh", "-c", "exit 7"]).code, 7);
    assert_eq!(office.namespaces().len(), 4);

    weir(&["lab", "down", &office.name]).ok();
    assert_eq!(office.namespaces(), Vec::<String>::new());
    assert!(!weir(&["lab", "ls"]).ok().contains(&office.name));
    assert!(!std::path::Path::new("/run/weir/labs").join(&office.name).exists());
    let e = weir(&["lab", "down", &office.name]).fails(1);
    assert!(e.contains("weir lab ls"), "{e}");
}

#[test]
fn a_lab_that_cannot_be_made_leaves_nothing() {
    let lab = Lab::new(&[]);
    let office = Office::new(&lab);
    // The graph's interfaces are not there.
    let text = std::fs::read_to_string(&office.file).unwrap().replace("node:lan", "node:other");
    std::fs::write(&office.file, &text).unwrap();
    let e = weir(&["lab", "up", &office.file]).fails(1);
    assert!(e.contains("weir apply") && e.contains("lan"), "{e}");
    assert_eq!(office.namespaces(), Vec::<String>::new());
    std::fs::write(&office.file, text.replace("server]", "servr]")).unwrap();
    let e = weir(&["lab", "up", &office.file]).fails(1);
    assert!(e.contains("links[1]: there is no host or node 'servr' (did you mean 'server'?)"), "{e}");
    assert_eq!(office.namespaces(), Vec::<String>::new());
}
