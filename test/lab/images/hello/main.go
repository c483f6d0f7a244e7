// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command hello is a sample workload: a web server that tells its name, and a
// client to try connections with from inside a pod.
//
//	hello serve [-tls-cert FILE -tls-key FILE] [-journal FILE]
//	hello get [-cacert FILE] URL
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

// timeout limits a request that the client makes.
const timeout = 5 * time.Second

func main() {
	log.SetFlags(0)
	command, args := "serve", []string(nil)
	if len(os.Args) > 1 {
		command, args = os.Args[1], os.Args[2:]
	}
	var err error
	switch command {
	case "serve":
		err = serve(args)
	case "get":
		err = get(args)
	default:
		err = fmt.Errorf("unknown command %q", command)
	}
	if err != nil {
		log.Fatalf("hello: %v", err)
	}
}

// serve answers requests on port 8080, or with TLS on port 8443.
func serve(args []string) error {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	cert := flags.String("tls-cert", "", "file with the certificate to serve with")
	key := flags.String("tls-key", "", "file with the key of the certificate")
	journal := flags.String("journal", "", "file to which each start adds the name of the host; /journal shows it")
	if err := flags.Parse(args); err != nil {
		return err
	}

	if *journal != "" {
		if err := record(*journal); err != nil {
			return err
		}
		http.HandleFunc("GET /journal", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, *journal) })
	}
	http.HandleFunc("GET /", hello)
	http.HandleFunc("POST /deny", deny)
	if *cert != "" {
		log.Print("serving with TLS on port 8443")
		return http.ListenAndServeTLS(":8443", *cert, *key, nil)
	}
	log.Print("serving on port 8080")
	return http.ListenAndServe(":8080", nil)
}

// record adds the name of the host to a file, and waits until the disk has it.
func record(path string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, name)
	return errors.Join(err, file.Sync(), file.Close())
}

// hello tells the name of the host, which in a pod is the name of the pod.
func hello(w http.ResponseWriter, _ *http.Request) {
	name, err := os.Hostname()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(w, "hello from %s\n", name)
}

// deny is an admission webhook that denies every request.
func deny(w http.ResponseWriter, r *http.Request) {
	var review struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Request    map[string]any `json:"request,omitempty"`
		Response   map[string]any `json:"response,omitempty"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review.Response = map[string]any{
		"uid":     review.Request["uid"],
		"allowed": false,
		"status":  map[string]any{"message": "hello denies everything"},
	}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(review); err != nil {
		log.Printf("answer admission review: %v", err)
	}
}

// get prints what is at an address.
func get(args []string) error {
	flags := flag.NewFlagSet("get", flag.ExitOnError)
	cacert := flags.String("cacert", "", "file with the certificate authorities to trust")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("get needs one URL")
	}

	client := &http.Client{Timeout: timeout}
	if *cacert != "" {
		pem, err := os.ReadFile(*cacert)
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return fmt.Errorf("no certificate in %s", *cacert)
		}
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	}
	response, err := client.Get(flags.Arg(0))
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(os.Stdout, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
