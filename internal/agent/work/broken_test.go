// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// brokenWorks is how many works the page about them has.
const brokenWorks = 12

// TestBrokenWorksSayWhatIsWrong makes the works of the documentation one after
// the other, and looks whether their conditions are what it says.
func TestBrokenWorksSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "spec", "work", "broken-works.md"))
	if err != nil {
		t.Fatal(err)
	}
	s := takeScene(t)
	user, _ := s.user(rbacv1.PolicyRule{
		APIGroups: []string{"", "apps", "rbac.authorization.k8s.io", "authorization.k8s.io", "apiextensions.k8s.io", workv1.GroupName},
		Resources: []string{"*"}, Verbs: []string{"*"},
	})
	s.start(agentOptions{spoke: user})
	sections := strings.Split(string(page), "\n## ")[1:]
	if len(sections) != brokenWorks {
		t.Errorf("the page has %d works, want %d", len(sections), brokenWorks)
	}
	for _, section := range sections {
		title, text, _ := strings.Cut(section, "\n")
		t.Run(title, func(t *testing.T) {
			s := &scene{lab: s.lab, t: t, cluster: s.cluster}
			text := strings.NewReplacer("namespace: cluster1", "namespace: "+s.cluster, "namespace: shop}", "namespace: "+s.ns()+"}",
				"namespace: shop,", "namespace: "+s.ns()+",", ":shop:", ":"+s.ns()+":", ` shop/`, " "+s.ns()+"/", `"shop"`, `"`+s.ns()+`"`).Replace(text)

			// The objects are made in their order, and the last one, a work, says what the section says.
			name := ""
			for _, block := range strings.Split(text, "```yaml\n")[1:] {
				objects, _, _ := strings.Cut(block, "```")
				decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(objects), 4096)
				for {
					object := &unstructured.Unstructured{}
					if err := decoder.Decode(object); errors.Is(err, io.EOF) {
						break
					} else if err != nil {
						t.Fatal(err)
					}
					if object.GetKind() == "ManifestWork" {
						if name != "" { // the one before was first
							s.condition(name, workv1.ManifestWorkConditionApplied, metav1.ConditionTrue)
						}
						name = object.GetName()
					}
					s.create(object)
				}
			}
			_, says, found := strings.Cut(text, "```text\n")
			says, _, _ = strings.Cut(says, "\n```")
			if !found {
				t.Fatal("the section does not tell what the work says")
			}
			for line := range strings.SplitSeq(says, "\n") {
				s.eventually(line, func() error {
					work, err := s.get(name)
					if err != nil {
						return err
					}
					return conditionSays(work, line)
				})
			}
		})
	}
}

// conditionSays returns an error unless a line is true, such as
// "work Applied False Reason: a part of the message".
func conditionSays(work *workv1.ManifestWork, line string) error {
	var list []metav1.Condition
	rest, ofWork := strings.CutPrefix(line, "work ")
	if ofWork {
		list = work.Status.Conditions
	} else if manifests := work.Status.ResourceStatus.Manifests; len(manifests) > 0 {
		list = manifests[0].Conditions
	}
	head, part, _ := strings.Cut(rest, ": ")
	for i := range list {
		c := &list[i]
		if head == fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason) && strings.Contains(c.Message, part) {
			return nil
		}
	}
	return fmt.Errorf("no condition of %+v", list)
}
