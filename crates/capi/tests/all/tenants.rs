//! A tenant's program in C: by its environment, and by the file that it names.

use crate::stage;
use hanare::TenantWish;
use hanare::tenant_file::{Tenant, hash};
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_program_is_of_the_tenant_whose_file_it_names() {
    let Some(program) = stage::program("tenant") else { return };
    let stage = stage::Stage::of(1);
    let operator = stage.attach(0);
    let files: Vec<String> = ["one", "none"]
        .into_iter()
        .map(|name| {
            let tenant = Tenant::draw(name).unwrap();
            if name == "one" {
                operator
                    .change_tenant(&TenantWish::Create { name: name.to_owned(), hash: hash(&tenant.key), quota: None })
                    .unwrap();
            }
            let file = stage::folder().join(format!("{name}.key"));
            std::fs::write(&file, tenant.text()).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
            file.to_str().unwrap().to_owned()
        })
        .collect();
    stage.pass(&program, &[&files[0], &files[1]], 1);
    let names: Vec<String> = operator.list().unwrap().into_iter().map(|region| region.name).collect();
    assert_eq!(names, ["one/a"]);
}
