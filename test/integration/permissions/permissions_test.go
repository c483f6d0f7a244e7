// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package permissions

import (
	"flag"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-io/capstan/internal/testing/golden"
)

var update = flag.Bool("update", false, "write the permissions that are found to testdata")

// wildcards are verbs, resources and groups that mean "all". The paths of
// discovery, which everybody may read, are none.
var wildcards = regexp.MustCompile(`(?m)^\*.*|.*\[[^]]*\*[^]]*\]$|^\S*\*\.\S*`)

// comparePermissions installs the accounts of an installation, and compares what the API server lets each of
// them do with its folder in testdata.
func comparePermissions(t *testing.T, installation string, objects []*unstructured.Unstructured) {
	t.Helper()
	t.Run(installation, func(t *testing.T) {
		c := clusters.TakeFixture(t)
		objects := slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return !about(o) })
		c.install(t, objects)
		defer c.remove(t, objects)
		left, err := filepath.Glob(filepath.Join("testdata", installation, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range subjectsOf(t, objects) {
			for _, namespace := range a.namespaces {
				file := filepath.Join("testdata", installation, a.file(namespace))
				left = slices.DeleteFunc(left, func(one string) bool { return one == file })
				found := c.permissions(t, a.subject, namespace)
				golden.CompareFile(t, file, file+" is not what the account may do", []byte(found), *update)
				if all := wildcards.FindAllString(found, -1); len(all) > 0 {
					t.Errorf("%s: it may do everything with something: %q", file, all)
				}
			}
		}
		for _, file := range left {
			t.Errorf("%s is of an account that nothing installs; remove it", file)
		}
	})
}

// TestPermissionsAreOfInstallations looks for folders that no test compares.
func TestPermissionsAreOfInstallations(t *testing.T) {
	folders, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if !slices.Contains([]string{
			"hub", "hub-clusters", "hub-users", "hub-hosted", "hub-hosted-management", "operators", "control-plane",
			"helm-cluster-manager", "helm-klusterlet", "member", "member-singleton", "member-push",
			"member-hosted", "member-hosted-management", "member-singleton-hosted", "member-singleton-hosted-management",
		}, filepath.Base(folder)) {
			t.Errorf("%s is of no installation; remove it", folder)
		}
	}
}

// about reports whether an object has to do with what accounts may do.
func about(object *unstructured.Unstructured) bool {
	return object.GetKind() == rbacv1.ServiceAccountKind || object.GroupVersionKind().Group == rbacv1.GroupName
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
