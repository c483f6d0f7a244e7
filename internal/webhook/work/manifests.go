// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/untrusted/nesting"
	"github.com/capstan-io/capstan/internal/webhook/advice"
)

// problemsMax is how many wrong manifests one answer names.
const problemsMax = 10

// manifestIdentity is what the rules need of a manifest.
type manifestIdentity struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name         string `json:"name"`
		Namespace    string `json:"namespace"`
		GenerateName string `json:"generateName"`
	} `json:"metadata"`
}

// memberObject is which object of the member a manifest is about, whatever version
// of it the manifest is in.
type memberObject struct {
	kind      schema.GroupKind
	namespace string
	name      string
}

func (o memberObject) String() string {
	name := o.name
	if o.namespace != "" {
		name = o.namespace + "/" + o.name
	}
	return fmt.Sprintf("%s %q", o.kind, name)
}

// checkManifests returns what is wrong with the manifests of the spec of a work
// at the path, which may have sizeMax bytes together. All wrong manifests are told
// at once.
func checkManifests(path string, manifests []workv1.Manifest, sizeMax int) error {
	if len(manifests) == 0 {
		return fmt.Errorf("%s.workload.manifests is empty: add at least one manifest, or delete this object", path)
	}
	size := 0
	for i := range manifests {
		size += len(manifests[i].Raw)
	}
	if size > sizeMax {
		return &advice.AdvisedError{
			Text:   fmt.Sprintf("the size of manifests is %d bytes which exceeds the %d limit", size, sizeMax),
			Advice: howToFit(path, manifests, sizeMax),
		}
	}
	var problems []error
	first := map[memberObject]int{}
	for i := range manifests {
		o, err := identifyManifest(manifests[i].Raw)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s.workload.manifests[%d]: %w", path, i, err))
			continue
		}
		if before, ok := first[o]; ok {
			problems = append(problems, fmt.Errorf("%s.workload.manifests[%d]: %s is already in manifests[%d]: remove one of them", path, i, o, before))
			continue
		}
		first[o] = i
	}
	if more := len(problems) - problemsMax; more > 0 {
		problems = append(problems[:problemsMax], fmt.Errorf("%d more invalid manifests", more))
	}
	return errors.Join(problems...)
}

// howToFit says what to do about manifests that have more than sizeMax bytes together: one that
// is too large alone cannot be spread.
func howToFit(path string, manifests []workv1.Manifest, sizeMax int) string {
	for i := range manifests {
		size := len(manifests[i].Raw)
		if size <= sizeMax {
			continue
		}
		which := fmt.Sprintf("%s.workload.manifests[%d]", path, i)
		if o, err := identifyManifest(manifests[i].Raw); err == nil {
			which += ", " + o.String() + ","
		}
		return fmt.Sprintf("%s has %d bytes, too many for any ManifestWork: make it smaller (a CustomResourceDefinition does without "+
			"descriptions in its schema), or let a propagation policy send it, for which this limit does not apply", which, size)
	}
	return fmt.Sprintf("the manifests in %s.workload are too large together: spread them over several ManifestWorks", path)
}

// identifyManifest returns which object a manifest is about.
func identifyManifest(raw []byte) (memberObject, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		return memberObject{}, errors.New("it is not an object: a manifest must have apiVersion, kind and metadata.name")
	}
	if err := nesting.CheckText(raw); err != nil {
		return memberObject{}, err //nolint:wrapcheck // whose manifest it is is told
	}
	var id manifestIdentity
	if err := json.Unmarshal(raw, &id); err != nil {
		return memberObject{}, fmt.Errorf("it cannot be parsed: %w", err)
	}
	if strings.HasSuffix(id.Kind, "List") && id.Metadata.Name == "" {
		return memberObject{}, fmt.Errorf("it is a %s: add each of its items as a manifest instead", id.Kind)
	}
	var missing []string
	for _, field := range []struct{ name, value string }{
		{"apiVersion", id.APIVersion}, {"kind", id.Kind}, {"metadata.name", id.Metadata.Name},
	} {
		if field.value == "" {
			missing = append(missing, field.name)
		}
	}
	if id.Metadata.GenerateName != "" {
		return memberObject{}, fmt.Errorf("the %s has generateName %q: set a name instead, so that the agent can find it again", id.Kind, id.Metadata.GenerateName)
	}
	if len(missing) > 0 {
		return memberObject{}, fmt.Errorf("it has no %s: add it", strings.Join(missing, ", no "))
	}
	version, err := schema.ParseGroupVersion(id.APIVersion)
	if err != nil {
		return memberObject{}, fmt.Errorf("apiVersion is %q, want VERSION or GROUP/VERSION", id.APIVersion)
	}
	return memberObject{
		kind:      schema.GroupKind{Group: version.Group, Kind: id.Kind},
		namespace: id.Metadata.Namespace,
		name:      id.Metadata.Name,
	}, nil
}

// checkWorkName returns what is wrong with the name of a work.
func checkWorkName(name string) error {
	if len(name) <= workv1.ManifestWorkNameLengthMax {
		return nil
	}
	return fmt.Errorf("the name has %d characters, at most %d are allowed, because the AppliedManifestWork on the member has a longer one: use a shorter name",
		len(name), workv1.ManifestWorkNameLengthMax)
}

// executorUser returns the user on the member that applies the work's
// manifests, and "" if that is the agent itself. The spec of the work is at the
// path.
func executorUser(path string, executor *workv1.ManifestWorkExecutor) (string, error) {
	if executor == nil {
		return "", nil
	}
	subject := executor.Subject
	if subject.Type != workv1.ExecutorSubjectTypeServiceAccount {
		return "", fmt.Errorf("%s.executor.subject.type is %q, want %s", path, subject.Type, workv1.ExecutorSubjectTypeServiceAccount)
	}
	if subject.ServiceAccount == nil || subject.ServiceAccount.Namespace == "" || subject.ServiceAccount.Name == "" {
		return "", fmt.Errorf("%s.executor.subject.serviceAccount needs the namespace and name of a ServiceAccount on the member", path)
	}
	// A colon would make it the name of another user, who may be allowed.
	if len(validation.IsDNS1123Label(subject.ServiceAccount.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(subject.ServiceAccount.Name)) > 0 {
		return "", fmt.Errorf("%s.executor.subject.serviceAccount: namespace %q, name %q is not a valid ServiceAccount",
			path, subject.ServiceAccount.Namespace, subject.ServiceAccount.Name)
	}
	return serviceAccountPrefix + subject.ServiceAccount.Namespace + ":" + subject.ServiceAccount.Name, nil
}

const (
	serviceAccountPrefix = "system:serviceaccount:"
	// agentUser stands for the agent itself in the permission to execute as it
	// (feature gate NilExecutorValidating). It has no namespace, because the hub
	// does not know which one the agent runs in.
	agentUser = serviceAccountPrefix + ":klusterlet-work-sa"
)
