use std::collections::BTreeMap;
use std::sync::Arc;

use lspool_normalize::{Position, QueryTarget, UriKey};

use super::{Bench, ask, code, run, rust_bench};
use crate::query::NamedFile;

async fn root_of(bench: &Bench, file: &str) -> String {
    let prepared = run(bench, &bench.context(), &ask(bench.path(file)))
        .await
        .unwrap();
    let below = prepared.root_path.strip_prefix(bench.path("")).unwrap();
    below.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_query_is_prepared_with_all_that_starts_its_server() {
    let bench = rust_bench();
    let mut request = ask(bench.path("work/p/src/main.rs"));
    request.target = QueryTarget::Symbol {
        name: "main".into(),
        line: None,
        occurrence: None,
    };

    let prepared = run(&bench, &bench.context(), &request).await.unwrap();

    assert_eq!(prepared.definition.id, "rust-analyzer");
    assert_eq!(prepared.language_id, "rust");
    assert_eq!(prepared.root_path, bench.path("work/p"));
    assert_eq!(
        prepared.root_uri,
        format!("file://{}", bench.path("work/p").display())
    );
    assert_eq!(
        prepared.file_uri,
        format!("file://{}", bench.path("work/p/src/main.rs").display())
    );
    assert_eq!(&*prepared.text, "fn main() {}\n");
    assert_eq!(prepared.position, Position::new(0, 3));
    assert_eq!(prepared.token.unwrap().text, "main");
    let launch = prepared.launch.unwrap();
    assert_eq!(launch.argv, [bench.path("bin/rust-analyzer")]);
    assert_eq!(launch.cwd, bench.path("work/p"));
    assert!(launch.scrub);
    assert!(launch.facts.parts.contains_key("variable PATH"));
    assert!(
        !launch
            .facts
            .parts
            .keys()
            .any(|part| part.contains("SECRET"))
    );
}

#[tokio::test]
async fn every_form_of_a_path_names_the_same_file() {
    let bench = rust_bench();
    bench.write("home/q/Cargo.toml", "[package]\nname = \"q\"\n");
    bench.write("home/q/a b.rs", "fn a() {}\n");
    bench.write("work/p/src/[id] é.rs", "fn b() {}\n");
    let mut context = bench.context();
    context.roots = vec![bench.path("work/p")];
    let base = bench.path("");
    let base = base.to_str().unwrap().trim_end_matches('/');

    for (file, expected) in [
        (format!("{base}/work/p/src/main.rs"), "work/p/src/main.rs"),
        (
            format!("{base}/work/../work/./p/src/main.rs"),
            "work/p/src/main.rs",
        ),
        ("src/main.rs".to_owned(), "work/p/src/main.rs"),
        ("~/q/a b.rs".to_owned(), "home/q/a b.rs"),
        (format!("file://{base}/home/q/a%20b.rs"), "home/q/a b.rs"),
        (
            format!("FILE://localhost{base}/work/p/s%72c/main.rs"),
            "work/p/src/main.rs",
        ),
        (
            format!("file:{base}/work/p/src/%5Bid%5D%20%c3%a9.rs"),
            "work/p/src/[id] é.rs",
        ),
        (
            format!("file://{base}/work/p/src/[id] é.rs"),
            "work/p/src/[id] é.rs",
        ),
    ] {
        let prepared = run(&bench, &context, &ask(&file)).await.unwrap();
        assert_eq!(prepared.file_path, bench.path(expected), "{file}");
        assert_eq!(
            UriKey::new(&prepared.file_uri),
            UriKey::new(&prepared.asked_uri),
            "{file}"
        );
        if file.to_lowercase().starts_with("file:") {
            assert_eq!(
                prepared.asked_uri, file,
                "a URI is answered as it was asked"
            );
        }
    }
}

#[tokio::test]
async fn a_relative_file_needs_exactly_one_root() {
    let bench = rust_bench();
    let mut context = bench.context();
    assert_eq!(
        code(run(&bench, &context, &ask("src/main.rs")).await),
        "LSP_WORKSPACE_REQUIRED"
    );
    context.roots = vec![bench.path("work/p"), bench.path("work")];
    assert_eq!(
        code(run(&bench, &context, &ask("src/main.rs")).await),
        "LSP_WORKSPACE_REQUIRED"
    );

    let mut request = ask("src/main.rs");
    request.workspace_root = Some("p".into());
    assert_eq!(
        run(&bench, &context, &request).await.unwrap().root_path,
        bench.path("work/p")
    );
}

#[tokio::test]
async fn a_missing_file_a_folder_and_a_virtual_document_are_told_apart() {
    let bench = rust_bench();
    let context = bench.context();
    assert_eq!(
        code(run(&bench, &context, &ask(bench.path("work/p/none.rs"))).await),
        "FS_NOT_FOUND"
    );
    assert_eq!(
        code(run(&bench, &context, &ask(bench.path("work/p"))).await),
        "FS_NOT_REGULAR_FILE"
    );
    assert_eq!(
        code(run(&bench, &context, &ask("jdt://contents/a.class")).await),
        "LSP_UNAVAILABLE"
    );
    assert_eq!(
        code(run(&bench, &context, &ask("file://elsewhere/a.rs")).await),
        "FS_IO_ERROR"
    );
}

#[tokio::test]
async fn a_cargo_package_is_hoisted_to_the_workspace_that_does_not_exclude_it() {
    let bench = rust_bench();
    bench.write(
        "work/w/Cargo.toml",
        "[workspace]\nmembers = [\"m/*\"]\nexclude = [\"out\", \"m/odd\"]\n",
    );
    bench.write("work/w/.git/HEAD", "");
    for package in ["m/a", "out/b", "m/odd"] {
        bench.write(
            &format!("work/w/{package}/Cargo.toml"),
            "[package]\nname = \"x\"\n",
        );
        bench.write(&format!("work/w/{package}/src/lib.rs"), "fn x() {}\n");
    }
    bench.write(
        "work/w/deep/far/Cargo.toml",
        "[package]\nname = \"far\"\nworkspace = \"../../\"\n",
    );
    bench.write("work/w/deep/Cargo.toml", "[workspace]\n");
    bench.write("work/w/deep/far/src/lib.rs", "fn x() {}\n");
    bench.write("work/w/m/a/broken/Cargo.toml", "not toml");
    bench.write("work/w/m/a/broken/lib.rs", "fn x() {}\n");

    assert_eq!(root_of(&bench, "work/w/m/a/src/lib.rs").await, "work/w");
    assert_eq!(
        root_of(&bench, "work/w/out/b/src/lib.rs").await,
        "work/w/out/b"
    );
    assert_eq!(
        root_of(&bench, "work/w/m/odd/src/lib.rs").await,
        "work/w/m/odd"
    );
    assert_eq!(
        root_of(&bench, "work/w/deep/far/src/lib.rs").await,
        "work/w",
        "the workspace that the package names"
    );
    assert_eq!(
        root_of(&bench, "work/w/m/a/broken/lib.rs").await,
        "work/w/m/a/broken"
    );
    assert_eq!(root_of(&bench, "work/p/src/main.rs").await, "work/p");
}

#[tokio::test]
async fn markers_are_tried_in_order_and_git_comes_last() {
    let bench = Bench::new();
    for program in [
        "clangd-19",
        "gopls",
        "pyright-langserver",
        "typescript-language-server",
    ] {
        bench.program(&format!("bin/{program}"));
    }
    bench.write("work/go/.git/HEAD", "");
    bench.write("work/go/go.work", "");
    bench.write("work/go/m/go.mod", "");
    bench.write("work/go/m/a.go", "package a\n");
    bench.write("work/c/build/compile_commands.json", "[]");
    bench.write("work/c/src/.clangd", "");
    bench.write("work/c/src/a.c", "int a;\n");
    bench.write("work/py/.git/HEAD", "");
    bench.write("work/py/pkg/setup.py", "");
    bench.write("work/py/pkg/deep/a.py", "a = 1\n");
    bench.write("work/py/loose/a.py", "a = 1\n");
    bench.write("work/ts/package-lock.json", "");
    bench.write("work/ts/pkg/package.json", "");
    bench.write("work/ts/pkg/a.ts", "let a\n");
    bench.write("work/bare/a.py", "a = 1\n");

    assert_eq!(root_of(&bench, "work/go/m/a.go").await, "work/go");
    assert_eq!(root_of(&bench, "work/c/src/a.c").await, "work/c");
    assert_eq!(
        root_of(&bench, "work/py/pkg/deep/a.py").await,
        "work/py/pkg"
    );
    assert_eq!(root_of(&bench, "work/py/loose/a.py").await, "work/py");
    assert_eq!(root_of(&bench, "work/ts/pkg/a.ts").await, "work/ts");
    assert_eq!(
        root_of(&bench, "work/bare/a.py").await,
        "work/bare",
        "without a marker it is the file's folder"
    );
}

#[tokio::test]
async fn the_home_folder_and_the_top_are_never_roots() {
    let bench = rust_bench();
    bench.program("bin/pyright-langserver");
    bench.write("home/.git/HEAD", "");
    bench.write("home/a.py", "a = 1\n");
    bench.write("home/notes/a.py", "a = 1\n");
    let context = bench.context();

    assert_eq!(
        code(run(&bench, &context, &ask(bench.path("home/a.py"))).await),
        "LSP_WORKSPACE_REQUIRED"
    );
    assert_eq!(root_of(&bench, "home/notes/a.py").await, "home/notes");
    let alias = bench.link(&bench.path("home"), "alias");
    for root in ["/", "~", alias.to_str().unwrap()] {
        let mut request = ask(bench.path("home/a.py"));
        request.workspace_root = Some(root.to_owned());
        assert_eq!(
            code(run(&bench, &context, &request).await),
            "LSP_WORKSPACE_REQUIRED",
            "{root}"
        );
    }
}

#[tokio::test]
async fn a_manifest_names_no_root_that_is_too_wide_or_beside_the_package() {
    let bench = rust_bench();
    bench.write("work/other/Cargo.toml", "[workspace]\n");
    bench.write("home/p/src/main.rs", "fn main() {}\n");
    let home = bench.path("home");
    bench.link(&home, "work/p/alias");
    for (package, named) in [
        ("work/p", "/"),
        ("work/p", home.to_str().unwrap()),
        ("work/p", "alias"),
        ("work/p", "../other"),
        ("work/p", "../../../../../../../.."),
        ("work/p", "src"),
        ("home/p", ".."),
        ("home/p", "../.."),
    ] {
        bench.write(
            &format!("{package}/Cargo.toml"),
            &format!("[package]\nname = \"p\"\nworkspace = \"{named}\"\n"),
        );

        let root = root_of(&bench, &format!("{package}/src/main.rs")).await;

        assert_eq!(root, package, "{named}");
    }
}

#[tokio::test]
async fn a_root_is_refused_whatever_named_it() {
    let bench = rust_bench();
    let library = bench.write("work/registry/dep/src/lib.rs", "pub fn dep() {}\n");
    for root in ["/".into(), bench.path("home")] {
        let mut context = bench.context();
        let owner = NamedFile {
            server: "rust-analyzer".into(),
            root_path: root,
        };
        let key = UriKey::new(&format!("file://{}", library.display()));
        context.named_files = Arc::new([(key, owner)].into());

        let refused = run(&bench, &context, &ask(&library)).await;

        assert_eq!(code(refused), "LSP_WORKSPACE_REQUIRED");
    }
}

#[tokio::test]
async fn a_given_root_must_hold_the_file_with_links_resolved() {
    let bench = rust_bench();
    bench.write("work/lib/a.rs", "fn a() {}\n");
    bench.link(&bench.path("work/lib"), "work/p/linked");
    let alias = bench.link(&bench.path("work/p"), "work/alias");
    let context = bench.context();
    let mut request = ask(bench.path("work/p/linked/a.rs"));
    request.workspace_root = Some(bench.path("work/p").to_str().unwrap().to_owned());
    assert_eq!(
        code(run(&bench, &context, &request).await),
        "LSP_OUTSIDE_WORKSPACE"
    );

    request.workspace_root = Some(bench.path("work/p2").to_str().unwrap().to_owned());
    assert_eq!(code(run(&bench, &context, &request).await), "FS_NOT_FOUND");
    request.workspace_root = Some(bench.path("work/lib/a.rs").to_str().unwrap().to_owned());
    assert_eq!(
        code(run(&bench, &context, &request).await),
        "FS_NOT_DIRECTORY"
    );

    // Given another spelling of the root, the file is told to the server in that spelling.
    let mut request = ask(bench.path("work/p/src/main.rs"));
    request.workspace_root = Some(alias.to_str().unwrap().to_owned());
    let prepared = run(&bench, &context, &request).await.unwrap();
    assert_eq!(prepared.root_path, alias);
    assert_eq!(prepared.file_path, alias.join("src/main.rs"));
    assert!(prepared.asked_uri.ends_with("/work/p/src/main.rs"));
}

#[tokio::test]
async fn a_library_file_goes_to_the_root_that_named_it() {
    let bench = rust_bench();
    let library = bench.write("work/registry/dep/src/lib.rs", "pub fn dep() {}\n");
    bench.write(
        "work/registry/dep/Cargo.toml",
        "[package]\nname = \"dep\"\n",
    );
    let mut context = bench.context();
    let owner = NamedFile {
        server: "rust-analyzer".into(),
        root_path: bench.path("work/p"),
    };
    let key = UriKey::new(&format!("file://{}", library.display()));
    context.named_files = Arc::new(BTreeMap::from([(key, owner)]));

    let prepared = run(&bench, &context, &ask(&library)).await.unwrap();
    assert_eq!(prepared.root_path, bench.path("work/p"));
    assert_eq!(prepared.file_path, library);

    let mut request = ask(&library);
    request.workspace_root = Some(bench.path("work/p").to_str().unwrap().to_owned());
    assert_eq!(
        run(&bench, &context, &request).await.unwrap().root_path,
        bench.path("work/p")
    );
    request.workspace_root = Some(
        bench
            .path("work")
            .join("registry/other")
            .to_str()
            .unwrap()
            .to_owned(),
    );
    std::fs::create_dir_all(bench.path("work/registry/other")).unwrap();
    assert_eq!(
        code(run(&bench, &context, &request).await),
        "LSP_OUTSIDE_WORKSPACE"
    );
}
