// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestExecutorOfTheDocumentation does what the documentation says and looks
// whether it is so.
func TestExecutorOfTheDocumentation(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "spec", "work", "manifestwork.md"))
	if err != nil {
		t.Fatal(err)
	}
	s := takeScene(t)
	s.start(agentOptions{})
	names := strings.NewReplacer(": cluster1\n", ": "+s.cluster+"\n", ": shop\n", ": "+s.cluster+"-shop\n")
	for _, block := range []string{"# member\n", "# hub\n"} {
		_, after, found := strings.Cut(string(page), "```yaml\n"+block)
		text, _, ended := strings.Cut(after, "```")
		if !found || !ended {
			t.Fatalf("the page has no block %q", block)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(names.Replace(text)), 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			s.create(object)
		}
	}
	shop := s.cluster + "-shop"
	s.condition(shop, "Applied", metav1.ConditionTrue)
	s.condition(shop, "Available", metav1.ConditionTrue)
	cm := &corev1.ConfigMap{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: shop, Name: "opening-hours"}, cm); err != nil || cm.Data["monday"] != "9-17" {
		t.Errorf("the object is %v, %v", cm.Data, err)
	}
	s.delete(shop)
	s.gone(shop)
}
