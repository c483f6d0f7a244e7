// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
)

const (
	// Path is where the endpoint is, followed by namespace and name.
	Path = "/debug/placements/"
	// BodyMax is how many bytes a Placement may have that is sent.
	BodyMax = 1 << 20
	// weightDefault is what the API server fills in for a weight that is missing.
	weightDefault = 1
)

// refusal is why a request is not answered.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

// placementKeyFromPath returns the Placement that a path names. That of a POST may name none,
// as the body does.
func placementKeyFromPath(method, path string) (types.NamespacedName, error) {
	rest, ours := strings.CutPrefix(path, Path)
	if ours && rest == "" && method == http.MethodPost {
		return types.NamespacedName{}, nil
	}
	namespace, name, two := strings.Cut(rest, "/")
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if !ours || !two || name == "" || validateKey(key) != nil {
		return types.NamespacedName{}, refuse(http.StatusNotFound, "there is nothing here; Placements are at %s<namespace>/<name>", Path)
	}
	return key, nil
}

// validateKey returns what is wrong with a key. The name may be missing.
func validateKey(key types.NamespacedName) error {
	if problems := validation.IsDNS1123Label(key.Namespace); len(problems) > 0 {
		return refuse(http.StatusBadRequest, "metadata.namespace: %s", strings.Join(problems, "; "))
	}
	if key.Name == "" {
		return nil
	}
	if problems := validation.IsDNS1123Subdomain(key.Name); len(problems) > 0 {
		return refuse(http.StatusBadRequest, "metadata.name: %s", strings.Join(problems, "; "))
	}
	return nil
}

// decodePlacement reads a Placement for the key, which is empty if the body names it.
func decodePlacement(w http.ResponseWriter, r *http.Request, key types.NamespacedName) (*clusterv1beta1.Placement, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, BodyMax))
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, refuse(http.StatusRequestEntityTooLarge, "the body has more than %d bytes, the limit", BodyMax)
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "reading the body: %v", err)
	}
	p := &clusterv1beta1.Placement{}
	if err := json.Unmarshal(body, p); err != nil {
		return nil, refuse(http.StatusBadRequest, "the body is not a JSON Placement: %v", err)
	}
	if err := defaultPrioritizerWeights(p, body); err != nil {
		return nil, refuse(http.StatusBadRequest, "the body is not a JSON Placement: %v", err)
	}
	sent := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	switch {
	case key.Name == "":
		key = sent
	case sent.Namespace != "" && sent.Namespace != key.Namespace, sent.Name != "" && sent.Name != key.Name:
		return nil, refuse(http.StatusBadRequest, "the path is that of Placement %q, and the body that of %q", key, sent)
	}
	p.Namespace = key.Namespace
	p.Name = key.Name
	return p, validateKey(key)
}

// defaultPrioritizerWeights sets the one default that the zero value does not stand for.
func defaultPrioritizerWeights(p *clusterv1beta1.Placement, body []byte) error {
	var written struct {
		Spec struct {
			PrioritizerPolicy struct {
				Configurations []struct {
					Weight *int32 `json:"weight"`
				} `json:"configurations"`
			} `json:"prioritizerPolicy"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(body, &written); err != nil {
		return err
	}
	configurations := p.Spec.PrioritizerPolicy.Configurations
	for i, c := range written.Spec.PrioritizerPolicy.Configurations {
		if c.Weight == nil && i < len(configurations) {
			configurations[i].Weight = weightDefault
		}
	}
	return nil
}
