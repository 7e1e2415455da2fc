// A library, but no plug-in.
extern "C" int something_else();
int something_else() { return 1; }
