// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package permissions

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

var update = flag.Bool("update", false, "write the permissions that are found to testdata")

// wildcards are verbs, resources and groups that mean "all". The paths of
// discovery, which everybody may read, are none.
var wildcards = regexp.MustCompile(`(?m)^\*.*|.*\[[^]]*\*[^]]*\]$|^\S*\*\.\S*`)

// TestPermissionsAreAsCommitted installs the accounts of each installation in
// turn, and compares what the API server lets each of them do with testdata.
func TestPermissionsAreAsCommitted(t *testing.T) {
	c := newCluster(t)
	found := map[string]bool{}
	for _, i := range installations() {
		t.Run(i.name, func(t *testing.T) {
			objects := slices.DeleteFunc(i.objects(t), func(o *unstructured.Unstructured) bool { return !about(o) })
			c.install(t, objects)
			defer c.remove(t, objects)
			for _, a := range subjectsOf(t, objects) {
				for _, namespace := range a.namespaces {
					file := filepath.Join("testdata", i.name, a.file(namespace))
					found[file] = true
					compare(t, file, c.permissions(t, a.subject, namespace))
				}
			}
		})
	}
	for _, file := range committed(t) {
		if !found[file] {
			t.Errorf("%s is of an account that nothing installs; remove it", file)
		}
	}
}

// about reports whether an object has to do with what accounts may do.
func about(object *unstructured.Unstructured) bool {
	return object.GetKind() == rbacv1.ServiceAccountKind || object.GroupVersionKind().Group == rbacv1.GroupName
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%v; run the test with -update", err)
		return
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s: run the test with -update if this is meant (-committed +found):\n%s", file, diff)
	}
	if all := wildcards.FindAllString(got, -1); len(all) > 0 {
		t.Errorf("%s: it may do everything with something: %q", file, all)
	}
}

func committed(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// account is a subject with the namespaces in which its rights are asked for.
type account struct {
	subject    rbacv1.Subject
	namespaces []string
}

// file is that of its rights in a namespace.
func (a account) file(namespace string) string {
	name := strings.ReplaceAll(a.subject.Name, ":", "-")
	if namespace != a.subject.Namespace {
		name += "@" + namespace
	}
	return name + ".txt"
}

// subjectsOf are all ServiceAccounts of an installation, and whoever else it
// gives rights: in their own namespaces, and where a binding names them.
func subjectsOf(t *testing.T, objects []*unstructured.Unstructured) []account {
	t.Helper()
	var all []account
	add := func(subject rbacv1.Subject, namespace string) {
		i := slices.IndexFunc(all, func(a account) bool { return a.subject == subject })
		if i < 0 {
			all, i = append(all, account{subject: subject}), len(all)
			if subject.Namespace != "" {
				all[i].namespaces = []string{subject.Namespace}
			}
		}
		if namespace != "" && !slices.Contains(all[i].namespaces, namespace) {
			all[i].namespaces = append(all[i].namespaces, namespace)
		}
	}
	for _, object := range objects {
		switch object.GetKind() {
		case rbacv1.ServiceAccountKind:
			add(rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: object.GetNamespace(), Name: object.GetName()}, "")
		case "RoleBinding", "ClusterRoleBinding":
			binding := &rbacv1.ClusterRoleBinding{} // RoleBinding has the same fields
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, binding); err != nil {
				t.Fatal(err)
			}
			for _, subject := range binding.Subjects {
				add(rbacv1.Subject{Kind: subject.Kind, Namespace: subject.Namespace, Name: subject.Name}, object.GetNamespace())
			}
		}
	}
	for i := range all {
		if len(all[i].namespaces) == 0 {
			all[i].namespaces = []string{"default"}
		}
	}
	return all
}
