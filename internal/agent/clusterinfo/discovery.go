// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// discoveryTimeout is how long the API server may take to tell what it serves,
	// and answerBytesMax how much of its answer is read.
	discoveryTimeout = 30 * time.Second
	answerBytesMax   = 8 << 20
	// failuresMax is how many requests in a row have to fail until the hub is told.
	failuresMax = 2
	// aggregated asks for all in one answer, in the two ways that there were of it.
	aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
		"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)

// apiDiscovery asks the member's API server what it serves.
type apiDiscovery struct {
	base *url.URL
	http *http.Client
	// documents are /api and /apis.
	documents [2]*discoveryDocument
}

// discoveryDocument is one of the two answers that tell everything.
type discoveryDocument struct {
	path string
	// etag is that of the latest answer, found what it said; failures is how many
	// requests in a row have failed.
	etag     string
	found    []servedGroupVersion
	failures int
}

// isUnavailable reports whether the document is not there. One failure may be a moment of
// weakness, unless nothing is known yet.
func (d *discoveryDocument) isUnavailable() bool {
	return d.failures >= failuresMax || d.failures > 0 && d.found == nil
}

// servedGroupVersion is a group and version with its resources.
type servedGroupVersion struct {
	groupVersion string
	resources    []servedResource
	// stale says that the server of the group does not answer, so the resources
	// may be old, or missing.
	stale bool
}

type servedResource struct{ name, kind string }

func newAPIDiscovery(config *rest.Config, client *http.Client) (*apiDiscovery, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("understanding the member's address %q: %w", config.Host, err)
	}
	return &apiDiscovery{base: base, http: client, documents: [2]*discoveryDocument{{path: "api"}, {path: "apis"}}}, nil
}

// refreshDocuments asks for what has changed since the last time. It reports whether it is
// worth to ask again soon.
func (d *apiDiscovery) refreshDocuments(ctx context.Context) (again bool) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	for _, doc := range d.documents {
		if err := d.refreshDocument(ctx, doc); err == nil {
			doc.failures = 0
		} else {
			doc.failures++
			again = again || doc.failures < failuresMax
		}
	}
	return again
}

func (d *apiDiscovery) refreshDocument(ctx context.Context, doc *discoveryDocument) error {
	response, err := d.requestPath(ctx, doc.path, doc.etag)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // nothing can be done about it
	switch response.StatusCode {
	case http.StatusNotModified:
		return nil
	case http.StatusOK:
	default:
		return fmt.Errorf("asking for /%s: the API server answers %s", doc.path, response.Status)
	}
	body := io.LimitReader(response.Body, answerBytesMax)
	if strings.Contains(response.Header.Get("Content-Type"), "g=apidiscovery.k8s.io") {
		if doc.found, err = decodeAggregated(body); err != nil {
			return err
		}
		doc.etag = response.Header.Get("Etag")
		return nil
	}
	doc.found, err = d.discoverEachVersion(ctx, body)
	return err
}

func (d *apiDiscovery) requestPath(ctx context.Context, path, etag string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.base.JoinPath(path).String(), nil)
	if err != nil {
		return nil, fmt.Errorf("asking for /%s: %w", path, err)
	}
	request.Header.Set("Accept", aggregated)
	if etag != "" {
		request.Header.Set("If-None-Match", etag)
	}
	response, err := d.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking for /%s: %w", path, err)
	}
	return response, nil
}

// decodeAggregated reads an APIGroupDiscoveryList, of which it needs little.
func decodeAggregated(from io.Reader) ([]servedGroupVersion, error) {
	var list struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Versions []struct {
				Version   string `json:"version"`
				Freshness string `json:"freshness"`
				Resources []struct {
					Resource     string `json:"resource"`
					ResponseKind struct {
						Kind string `json:"kind"`
					} `json:"responseKind"`
				} `json:"resources"`
			} `json:"versions"`
		} `json:"items"`
	}
	if err := json.NewDecoder(from).Decode(&list); err != nil {
		return nil, fmt.Errorf("understanding what the API server serves: %w", err)
	}
	var found discoveryFindings
	for _, group := range list.Items {
		for _, version := range group.Versions {
			s := servedGroupVersion{groupVersion: formatGroupVersion(group.Metadata.Name, version.Version), stale: version.Freshness == "Stale"}
			for _, r := range version.Resources {
				s.resources = append(s.resources, servedResource{name: r.Resource, kind: r.ResponseKind.Kind})
			}
			if err := found.addGroupVersion(s); err != nil {
				return found.all, err
			}
		}
	}
	return found.all, nil
}

func formatGroupVersion(group, version string) string {
	if group == "" {
		return version
	}
	return group + "/" + version
}

// discoverEachVersion asks an API server that does not tell everything at once (Kubernetes
// before 1.27) for each group and version, until there is too much to keep.
func (d *apiDiscovery) discoverEachVersion(ctx context.Context, from io.Reader) ([]servedGroupVersion, error) {
	var list struct {
		Versions []string `json:"versions"` // of /api
		Groups   []struct {
			Versions []struct {
				GroupVersion string `json:"groupVersion"`
			} `json:"versions"`
		} `json:"groups"` // of /apis
	}
	if err := json.NewDecoder(from).Decode(&list); err != nil {
		return nil, fmt.Errorf("understanding the groups of the API server: %w", err)
	}
	var found discoveryFindings
	for _, version := range list.Versions {
		if err := found.addGroupVersion(d.discoverVersion(ctx, "api/"+version, version)); err != nil {
			return found.all, err
		}
	}
	for _, group := range list.Groups {
		for _, version := range group.Versions {
			if err := found.addGroupVersion(d.discoverVersion(ctx, "apis/"+version.GroupVersion, version.GroupVersion)); err != nil {
				return found.all, err
			}
		}
	}
	return found.all, ctx.Err()
}

// discoverVersion asks for the resources of one group and version.
func (d *apiDiscovery) discoverVersion(ctx context.Context, path, name string) servedGroupVersion {
	s := servedGroupVersion{groupVersion: name, stale: true}
	response, err := d.requestPath(ctx, path, "")
	if err != nil {
		return s
	}
	defer response.Body.Close() //nolint:errcheck // nothing can be done about it
	var list struct {
		Resources []struct {
			Name string `json:"name"`
			Kind string `json:"kind"`
		} `json:"resources"`
	}
	if response.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(response.Body, answerBytesMax)).Decode(&list) != nil {
		return s
	}
	s.stale = false
	for _, r := range list.Resources {
		if !strings.Contains(r.Name, "/") {
			s.resources = append(s.resources, servedResource{name: r.Name, kind: r.Kind})
		}
	}
	return s
}
