// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"sigs.k8s.io/yaml"
)

const (
	olmModule = "github.com/operator-framework/operator-lifecycle-manager"
	// platformNamespace is that of OLM's own manifests.
	platformNamespace = "operator-lifecycle-manager"
	// OperatorNamespace is the one that the bundles suggest.
	OperatorNamespace = "open-cluster-management"
	// olmImage is made by `make test-olm`.
	olmImage = "quay.io/operator-framework/olm:lab"
)

// olmManifests are those of OLM's chart that its operators need. Left out are the
// catalogs of the internet, monitors, NetworkPolicies, which the lab does not enforce,
// and the package server, which only the web console and kubectl get
// packagemanifests ask.
func olmManifests() []string {
	return []string{
		"00-namespace", "02-olm-operator.serviceaccount", "03-olmconfig", "07-olm-operator.deployment",
		"08-catalog-operator.deployment", "09-aggregated.clusterrole", "13-operatorgroup-default",
	}
}

// Platform is OLM: its manifests, and the image of opm. What runs opm pulls an image
// that has a tag, whether it is there or not.
type Platform struct{ directory, Version, opmImage string }

// NewPlatform returns the OLM of this module.
func NewPlatform(t *testing.T, s *BundleShelf) Platform {
	t.Helper()
	out, err := output(t.Context(), "", "go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", olmModule)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(out)
	if len(fields) != 2 {
		t.Fatalf("the module %s is not downloaded: %q", olmModule, out)
	}
	return Platform{
		directory: filepath.Join(fields[0], "deploy", "chart"), Version: fields[1],
		opmImage: s.opm,
	}
}

// InstallPlatform installs OLM as its chart does.
func (p Platform) InstallPlatform(t *testing.T, clusters ...Cluster) {
	t.Helper()
	manifests := p.render(t)
	for _, c := range clusters {
		c.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(p.directory, "crds"))
		c.Kubectl(t, "wait", "--for=condition=Established", "crd", "--all", "--timeout=600s")
		c.Apply(t, manifests)
	}
	for _, c := range clusters {
		for _, deployment := range []string{"olm-operator", "catalog-operator"} {
			c.Kubectl(t, "-n", platformNamespace, "rollout", "status", "deployment/"+deployment, "--timeout=600s")
		}
	}
}

// render fills in the templates of the chart, which need little of what Helm can.
func (p Platform) render(t *testing.T) string {
	t.Helper()
	values := p.values(t)
	functions := template.FuncMap{
		"toYaml": func(value any) (string, error) { out, err := yaml.Marshal(value); return string(out), err },
		"indent": indent,
	}
	var rendered bytes.Buffer
	for _, name := range olmManifests() {
		path := filepath.Join(p.directory, "templates", "0000_50_olm_"+name+".yaml")
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := template.New(name).Funcs(functions).Parse(string(content))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		rendered.WriteString("\n---\n")
		if err := parsed.Execute(&rendered, map[string]any{"Values": values}); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	return rendered.String()
}

func indent(n int, text string) string {
	space := strings.Repeat(" ", n)
	return space + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+space)
}

// values are those of the chart, with the images of the lab, which nobody can pull.
func (p Platform) values(t *testing.T) map[string]any {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(p.directory, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(content, &values); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"olm", "catalog"} {
		values[part].(map[string]any)["image"] = map[string]any{"ref": olmImage, "pullPolicy": "IfNotPresent"}
	}
	values["catalog"].(map[string]any)["opmImageArgs"] = "--opmImage=" + p.opmImage
	return values
}

// CatalogSource is a catalog in an image, which OLM serves with opm.
func CatalogSource(image string) string {
	return fmt.Sprintf(`apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata:
  name: capstan
  namespace: %s
spec:
  sourceType: grpc
  displayName: Capstan
  publisher: The Capstan Authors
  image: %s
  grpcPodConfig:
    securityContextConfig: restricted
    extractContent:
      catalogDir: /configs
      cacheDir: /cache
`, platformNamespace, image)
}

// OperatorGroup says for which namespaces the operators of a namespace work: all.
func OperatorGroup(namespace string) string {
	return fmt.Sprintf(`apiVersion: operators.coreos.com/v1
kind: OperatorGroup
metadata:
  name: %[1]s
  namespace: %[1]s
`, namespace)
}

// SubscriptionManifest is what a user makes for a package.
func SubscriptionManifest(namespace, packageName string) string {
	return fmt.Sprintf(`apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata:
  name: %[2]s
  namespace: %[1]s
spec:
  name: %[2]s
  channel: stable
  source: capstan
  sourceNamespace: %[3]s
`, namespace, packageName, platformNamespace)
}
